"""What libraries read or calculate again and again, done once or cheaply: most of the work of many small tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import httpx
import redis.utils
from argon2 import PasswordHasher
from redis._parsers.commands import AsyncCommandsParser, CommandsParser

from presence_core.files import password_file

HASHER = password_file._hasher  #: as in production
READ, READ_ASYNC = CommandsParser.initialize, AsyncCommandsParser.initialize


def read_once() -> None:
    """The metadata of redis-py's package, and the list of commands: all servers of the tests with a cluster run the
    same program. The certificates of authorities, which httpx reads for each client."""
    redis.utils.get_lib_version = cache(redis.utils.get_lib_version)
    httpx._transports.default.create_ssl_context = cache(httpx._config.create_ssl_context)  # type: ignore[attr-defined]
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


def hash_cheaply() -> None:
    """Passwords of staff with the least work: a hash as in production takes a sixth of a second."""
    password_file._hasher = lambda: PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
