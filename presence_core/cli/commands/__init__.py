"""The commands: a module for each group of them.

Each module has ``add_commands(add_command)`` and one function per command, which calls the client, prints the result
and returns the exit code. A new command goes into the module of its domain; a new module goes into ``MODULES``.
"""

from __future__ import annotations

from typing import Final

from presence_core.cli.commands import (
    block_rules,
    bulk_kick,
    completion,
    dashboard,
    demo,
    health,
    http_service,
    import_export,
    maintenance,
    privacy,
    reshard,
    search,
    sessions,
    staff,
    staff_members,
    statistics,
)

MODULES: Final = (
    sessions, search, statistics, staff, block_rules, bulk_kick, privacy, staff_members, health, maintenance, reshard,
    http_service, dashboard, demo, import_export, completion,
)  # fmt: skip
"""In the order of ``presence --help``."""
