"""What redis-py reads for each connection and each client of a cluster, read once: most of the work of opening one."""

from __future__ import annotations

from functools import cache
from typing import Any

import redis.utils
from redis._parsers.commands import AsyncCommandsParser, CommandsParser

READ, READ_ASYNC = CommandsParser.initialize, AsyncCommandsParser.initialize


def read_once() -> None:
    """The metadata of redis-py's package, and the list of commands: all servers of the tests with a cluster run the
    same program."""
    redis.utils.get_lib_version = cache(redis.utils.get_lib_version)
    known: dict[str, Any] = {}

    def initialize(self: CommandsParser, connection: Any) -> None:
        if not known:
            READ(self, connection)  # type: ignore[no-untyped-call]
            known.update(self.commands)
        self.commands = dict(known)

    async def initialize_async(self: AsyncCommandsParser, node: Any = None) -> None:
        if not known:
            await READ_ASYNC(self, node)
            known.update(self.commands)
        self.node = node or self.node
        self.commands = dict(known)

    CommandsParser.initialize = initialize  # type: ignore[method-assign]
    AsyncCommandsParser.initialize = initialize_async  # type: ignore[method-assign]
