"""Give a forked child its own locks, threads and connections.

A fork copies locks as they are, but only the thread that forks: a lock that another thread held is never released in
the child. Sockets belong to the parent, and an asyncio event loop does not survive a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_renewals: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def renew_in_child(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew(owner)`` in every child that this process forks. ``owner`` is held weakly."""
    _renewals[owner] = renew


def _renew_all() -> None:
    for owner, renew in list(_renewals.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
