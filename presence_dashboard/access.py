"""Who acts. Asked inside every action, each time: what a page showed a moment ago gives nobody a right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Actor:
    """The member of staff at the other end of this page."""

    name: str  #: what actions are signed with


LOCAL_OPERATOR: Final = Actor("local operator")


def current() -> Actor:
    """The one who acts now.

    There is one mode so far: open on this machine only, where nobody signs in. ``gate`` keeps all others out.
    """
    return LOCAL_OPERATOR
