"""``make test`` runs a part of the slow tests; with PRESENCE_SOAK set (``make soak``) they run whole."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

SOAK: Final = int(os.environ.get("PRESENCE_SOAK") or 0)
"""How many random histories each test of tests/properties plays; 1 means 200. 0: this is ``make test``."""


def size(short: T, whole: T) -> T:
    """The size of a test: ``short`` in ``make test``, still enough to fail, or the ``whole`` in ``make soak``."""
    return whole if SOAK else short
