"""Roles and their rights, the actor of a page, and the errors for missing access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

Role = Literal["stats", "viewer", "support", "admin"]
"""From least to most; each role has the rights of the roles before it."""

Right = Literal[
    "counts", "people", "kick", "remark", "bulk", "lengthen", "block_rules", "export", "share", "audit_export",
    "repair", "staff",
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

    @property
    def sees_names(self) -> bool:
        """Whether names of people may be shown, and of devices, which many people call by their own name."""
        return self.may("people") and "name" not in self.masked

    def may(self, right: Right) -> bool:
        return right in _GRANTED[self.role]
