"""Roles and their rights, the actor of a page, and the errors for missing access."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

Role = Literal["stats", "viewer", "support", "admin"]
"""From least to most; each role has the rights of the roles before it."""

Right = Literal[
    "counts", "people", "kick", "remark", "bulk", "lengthen", "block_rules", "export", "share", "audit_export",
    "repair", "staff", "approve",
]  # fmt: skip

ROLES: Final[tuple[Role, ...]] = get_args(Role)

HIDDEN: Final = "•••"
"""Shown in place of a value that the role may not see."""

_GRANTED: Final[dict[Role, frozenset[Right]]] = {
    "stats": frozenset({"counts"}),
    "viewer": frozenset({"counts", "people"}),
    "support": frozenset({"counts", "people", "kick", "remark", "bulk", "export", "share"}),
    "admin": frozenset(get_args(Right)),
}


_FROM: Final = ", from "


def denied_from(why: str, address: str | None) -> str:
    """Why a sign-in was refused, and from where, as the audit keeps it."""
    return f"{why}{_FROM}{address}" if address else why


def without_address(reason: str) -> str:
    """The same without the address."""
    why, has_address, _ = reason.partition(_FROM)
    return why + has_address + HIDDEN if has_address else reason


class SignedOut(Exception):
    """No one is signed in, or the sign-in has ended. The message is shown on the page."""


class SignInUnknown(SignedOut):
    """Redis is unavailable, and the last check of the sign-in is too old."""


class Denied(Exception):
    """The actor lacks the right. The message is shown on the page."""


class AuthenticationTooOld(Denied):
    """The actor has the right, and must authenticate again first. The message is shown on the page."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The staff member who uses a page."""

    name: str  #: stored with their actions in the audit
    role: Role
    masked: frozenset[str] = frozenset()  #: "name", "ip" or both: not shown to this actor
    bulk_limit: int | None = None  #: most sessions of one bulk kick; None: the library's limit
    four_eyes: int | None = None  #: sessions above which everyone needs a second person; None: no one does
    can_ask: bool = field(
        default=False, compare=False
    )  #: whether an admin can approve what this actor may not do alone

    @property
    def sees_names(self) -> bool:
        """Whether names of people may be shown, and of devices, which many people call by their own name."""
        return self.may("people") and "name" not in self.masked

    @property
    def alone_limit(self) -> int | None:
        """Most sessions of one bulk kick without a second person; None: the library's limit."""
        limits = [limit for limit in (self.bulk_limit, self.four_eyes) if limit is not None]
        return min(limits, default=None)

    def may(self, right: Right) -> bool:
        return role_may(self.role, right)


def role_may(role: Role, right: Right) -> bool:
    return right in _GRANTED[role]
