"""What each role may, who is at the other end of a page, and the two ways of being turned away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

Role = Literal["stats", "viewer", "support", "admin"]
"""From the least to the most; each may what those before it may."""

Right = Literal["counts", "people", "kick", "bulk", "export", "audit_export", "repair", "staff"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)

HIDDEN: Final = "•••"
"""What stands for what somebody may not see."""

_GRANTED: Final[dict[Role, frozenset[Right]]] = {
    "stats": frozenset({"counts"}),
    "viewer": frozenset({"counts", "people"}),
    "support": frozenset({"counts", "people", "kick", "bulk", "export"}),
    "admin": frozenset(get_args(Right)),
}


class SignedOut(Exception):
    """Nobody is signed in, or no longer: the sentence for who tries."""


class CannotTell(SignedOut):
    """Redis is away, and who this is has not been asked for too long."""


class Denied(Exception):
    """Whoever acts may not do that: the sentence that says so."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The member of staff at the other end of this page."""

    name: str  #: what actions are signed with
    role: Role
    masked: frozenset[str] = frozenset()  #: of "name" and "ip": what this one does not see of others
    bulk_limit: int | None = None  #: sessions that a bulk kick of theirs may end; None is the library's own limit

    def may(self, right: Right) -> bool:
        return right in _GRANTED[self.role]
