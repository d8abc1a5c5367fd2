"""The commands: a module for each group of them.

Each module has ``add_commands(add_command)`` and one function per command, which calls the client, prints the result
and returns the exit code. A new command goes into the module of its domain; a new module goes into ``MODULES``.
"""

from __future__ import annotations

from typing import Final

from presence_core.cli.commands import (
    bulk_kick,
    health,
    import_export,
    maintenance,
    privacy,
    reshard,
    search,
    sessions,
    statistics,
)
from presence_core.cli.commands.programs import completion, dashboard, demo, http_service, mirror, notices
from presence_core.cli.commands.staff import block_rules, blocks_and_audit, members

MODULES: Final = (
    sessions, search, statistics, blocks_and_audit, block_rules, bulk_kick, privacy, members, health, maintenance,
    reshard, http_service, dashboard, demo, mirror, notices, import_export, completion,
)  # fmt: skip
"""In the order of ``presence --help``."""
