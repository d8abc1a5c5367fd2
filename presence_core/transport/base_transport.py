"""What the blocking and the awaiting transport share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hiredis import pack_command
from redis.exceptions import RedisClusterException, RedisError

from presence_core.models import SentinelHealth
from presence_core.scripts.calls import Call, as_text
from presence_core.transport.connections import check_client, own_pool
from presence_core.transport.routing import Cluster, Router, SingleServer, server_of
from presence_core.transport.sentinel_watch import SentinelWatch

UNREACHABLE: Final = (RedisError, RedisClusterException, OSError)

PIECE_BYTES: Final = 32_768
"""Written to a socket at once."""


def pack(calls: list[Call]) -> Iterator[bytes]:
    """Commands as bytes, in pieces: the server works on one piece while the next is being built and packed."""
    pieces: list[bytes] = []
    size, none_was_late = 0, True
    for call in calls:
        if none_was_late and callable(call.wire):  # the first call that is built late: send those before it now
            none_was_late = False
            if pieces:
                yield b"".join(pieces)
                pieces, size = [], 0
        # Text only: hiredis 3.5 crashes the process if a signal handler raises while it packs a number.
        piece = pack_command(as_text(call.words))  # type: ignore[arg-type]  # the stub's tuple is of one element
        pieces.append(piece)
        size += len(piece)
        if size > PIECE_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


class BaseTransport:
    """Knows the client, the router and, behind Sentinel, the watch over the master."""

    def __init__(self, client: Any, timeout: float, cluster_class: type, *, use_asyncio: bool) -> None:
        check_client(client, use_asyncio=use_asyncio)
        self.is_cluster = isinstance(client, cluster_class)
        self._client = client
        self._timeout = timeout
        self._cluster = Cluster(client, is_ready=not use_asyncio) if self.is_cluster else None
        self._router: Router = self._cluster or SingleServer(own_pool(client, timeout))
        manager = None if self.is_cluster else getattr(self._router.node(""), "sentinel_manager", None)
        self._is_sentinel = manager is not None
        self._watch: SentinelWatch | None = getattr(manager, "watch", None)

    @property
    def master(self) -> object:
        """Behind Sentinel the address of the master, as last named. Needs no round trip."""
        return self._watch.master.address if self._watch is not None and self._watch.master is not None else None

    @property
    def may_fail_over(self) -> bool:
        """Whether another server may take over: behind Sentinel, or on a cluster."""
        return self.is_cluster or self._is_sentinel

    def server_of(self, key: str) -> str:
        """The address of the server that has this key; "" if it is not known."""
        return server_of(self._router, key)

    def sentinels(self) -> SentinelHealth | None:
        """The Sentinels that name the master, as they last answered; None without any."""
        return None if self._watch is None else self._watch.health()
