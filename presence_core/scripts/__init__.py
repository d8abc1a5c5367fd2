"""The Lua scripts: a module for each domain, with each script's name in Python; ``calls`` carries them to Redis."""

from __future__ import annotations

from typing import Final

from presence_core.scripts import (
    bulk_kick,
    failures,
    maintenance,
    mirror,
    notices,
    privacy,
    reshard,
    search,
    sessions,
    staff,
    trackers,
)
from presence_core.scripts.script import Script

_DOMAINS: Final = (
    sessions, search, failures, bulk_kick, staff, notices, maintenance, privacy, reshard, mirror, trackers,
)  # fmt: skip

EVERY: Final = tuple(script for domain in _DOMAINS for script in vars(domain).values() if isinstance(script, Script))
