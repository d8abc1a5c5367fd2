"""The Redis in which a site keeps its sessions: read in slices, listen, and delete only what still is what it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, RedisError, ResponseError, WatchError

from presence_core.errors import Unavailable
from presence_core.transport.connections import closers, connect, server_name
from presence_core.transport.errors import explained

LONGEST: Final = 1_048_576
"""Bytes of a session that are read. A longer one is skipped."""

READ_TOGETHER: Final = 50
"""Keys whose commands are sent at once: the server answers all of them before it serves others."""

TRIES: Final = 20
"""How often a deletion of one key is tried while others write it, before it waits for the next turn."""

TOGETHER: Final = 20
"""Keys that are deleted in one transaction: a change of one of them repeats it."""

_CURSORS: Final = 1 << 64
"""Above every cursor of a server."""

NO_EXPIRY, GONE = -1, -2
"""What Redis answers for the time to live."""

_GLOB: Final = re.compile(r"([*?\[\]\\^])")


class RawSession(NamedTuple):
    """What the site's server has for a key."""

    value: Any  #: bytes of a text; of a hash its fields; None where ``problem`` says why
    ttl: int  #: ms; NO_EXPIRY, GONE
    problem: str = ""  #: "too long" or "another type"


Words = tuple[str | bytes, ...]
"""A command."""


class SiteStore:
    """A connection for one thread. Methods raise Unavailable."""

    def __init__(self, url: str, timeout: float, fields: Sequence[str] = ()) -> None:
        """fields: sessions are hashes of which these are read; none: texts."""
        client = connect(url, timeout, use_asyncio=False)
        self._client = client
        self.is_cluster = isinstance(client, RedisCluster)
        self._fields = tuple(fields)
        self._listening: list[Any] = []  # one for each server
        self._listens_to: set[str] = set()  # the masters of a cluster
        self.name = server_name(client)
        self.database = 0 if self.is_cluster else int(client.connection_pool.connection_kwargs.get("db") or 0)

    def close(self) -> None:
        self.stop_listening()
        for close in closers(self._client):
            close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, RedisClusterException, OSError) as error:
            with suppress(RedisError, RedisClusterException, OSError):
                self._refresh_layout()
            failure = explained(error, self.name.removeprefix("Redis at "))
            raise Unavailable(f"The site's store: {failure}", self.name) from error

    def _refresh_layout(self) -> None:
        """Ask the cluster which masters it has: commands for one of them do not follow a failover."""
        if self.is_cluster:
            self._client.nodes_manager.initialize()

    def _servers(self) -> list[Any]:
        """A client of each server that has keys: the server, or the masters of the cluster."""
        if not self.is_cluster:
            return [self._client]
        nodes = sorted(self._client.get_primaries(), key=lambda node: str(node.name))
        return [self._client.get_redis_connection(node) for node in nodes]

    def _by_server(self, keys: Sequence[bytes]) -> list[tuple[Any, list[bytes]]]:
        """The keys with a client of the server that has them."""
        if not self.is_cluster:
            return [(self._client, list(keys))]
        groups: dict[str, tuple[Any, list[bytes]]] = {}
        for key in keys:
            node = self._client.get_node_from_key(key)
            groups.setdefault(node.name, (self._client.get_redis_connection(node), []))[1].append(key)
        return list(groups.values())

    # -- reading ------------------------------------------------------------------------------------------------------

    def scan(self, cursor: int, prefix: str, count: int) -> tuple[int, list[bytes]]:
        """The next slice of the keys with this prefix, and where the one after it begins; 0 at the end.

        On a cluster one master follows the other: the upper bits of the cursor are its number.
        """
        with self._explained():
            number, within = divmod(cursor, _CURSORS)
            servers = self._servers()
            if number >= len(servers):  # the cluster has become smaller
                return 0, []
            found, keys = servers[number].scan(within, match=pattern(prefix, "*"), count=count)
            if int(found):
                return number * _CURSORS + int(found), keys
            return (number + 1) * _CURSORS if number + 1 < len(servers) else 0, keys

    def read(self, keys: Sequence[bytes]) -> list[RawSession]:
        """The sessions of these keys. A round trip for READ_TOGETHER of them; two of hashes."""
        read = self._hashes if self._fields else self._texts
        found: list[RawSession] = []
        with self._explained():
            for at in range(0, len(keys), READ_TOGETHER):
                found += read(keys[at : at + READ_TOGETHER])
        return found

    def _texts(self, keys: Sequence[bytes]) -> list[RawSession]:
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.getrange(key, 0, LONGEST)
            pipe.pttl(key)
        replies = pipe.execute(raise_on_error=False)
        return [_text(value, ttl) for value, ttl in zip(replies[::2], replies[1::2], strict=True)]

    def _hashes(self, keys: Sequence[bytes]) -> list[RawSession]:
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            for field in self._fields:
                pipe.execute_command("HSTRLEN", key, field)
        width = len(self._fields)
        sizes = pipe.execute(raise_on_error=False)
        fits = [_fits(sizes[at : at + width]) for at in range(0, len(sizes), width)]
        for key, fit in zip(keys, fits, strict=True):
            pipe.hmget(key, ["-"] if fit else self._fields)
            pipe.pttl(key)
        replies = pipe.execute(raise_on_error=False)
        return [
            self._hash(values, ttl, fit) for fit, values, ttl in zip(fits, replies[::2], replies[1::2], strict=True)
        ]

    def _hash(self, values: Any, ttl: Any, problem: str) -> RawSession:
        if isinstance(ttl, Exception):
            raise ttl
        if problem or isinstance(values, Exception):
            return RawSession(None, ttl, problem or "another type")
        return RawSession(dict(zip(self._fields, values, strict=True)), ttl)

    # -- deleting -----------------------------------------------------------------------------------------------------

    def delete(
        self,
        keys: Sequence[bytes],
        is_wanted: Callable[[bytes, RawSession], bool],
        more: Callable[[bytes, RawSession], Sequence[Words]],
    ) -> list[bytes]:
        """Delete those keys that ``is_wanted`` still wants deleted, with what ``more`` adds.

        A key that changes between the question and the deletion is asked about again. Returns those that changed each
        time: they are still there.
        """
        busy: list[bytes] = []
        with self._explained():
            for server, own in self._by_server(keys):
                together = 1 if self.is_cluster else TOGETHER  # there a transaction has keys of one slot
                for at in range(0, len(own), together):
                    busy += self._delete_some(server, own[at : at + together], is_wanted, more)
        return busy

    def _delete_some(self, server: Any, keys: Sequence[bytes], is_wanted: Any, more: Any) -> list[bytes]:
        with server.pipeline(transaction=True) as pipe:
            for _ in range(TRIES):
                try:
                    pipe.watch(*keys)
                    wanted = [(key, raw) for key, raw in zip(keys, self._now(pipe, keys), strict=True)
                              if raw.ttl != GONE and is_wanted(key, raw)]  # fmt: skip
                    if not wanted:
                        pipe.unwatch()
                        return []
                    pipe.multi()
                    pipe.unlink(*(key for key, _ in wanted))
                    also = [words for key, raw in wanted for words in more(key, raw)]
                    for words in () if self.is_cluster else also:
                        pipe.execute_command(*words)
                    pipe.execute()
                    for words in also if self.is_cluster else ():  # keys of other slots
                        self._client.execute_command(*words)
                    return []
                except WatchError:
                    if len(keys) > 1:  # each by itself: one busy session must not keep the others
                        return [key for each in keys for key in self._delete_some(server, [each], is_wanted, more)]
        return list(keys)

    def _now(self, pipe: Any, keys: Sequence[bytes]) -> list[RawSession]:
        """The sessions as the transaction sees them."""
        if not self._fields:
            return [RawSession(value, GONE if value is None else NO_EXPIRY) for value in pipe.mget(keys)]
        return [_now_hash(self._fields, pipe, key) for key in keys]

    # -- listening ----------------------------------------------------------------------------------------------------

    def notification_flags(self) -> str | None:
        """notify-keyspace-events of the server: of a cluster what all masters have. None where it does not say."""
        with self._explained():
            self._refresh_layout()
            try:
                found = [server.config_get("notify-keyspace-events") for server in self._servers()]
            except ResponseError:
                return None
        flags = [str(next(iter(each.values()), "")) for each in found]
        return "".join(flag for flag in flags[0] if all(flag in other for other in flags))

    def turn_on_notifications(self, flags: str) -> None:
        with self._explained():
            for server in self._servers():
                server.config_set("notify-keyspace-events", flags)

    def listen(self, prefix: str) -> None:
        """Hear of every change of the keys with this prefix, from now on."""
        self.stop_listening()
        with self._explained():
            self._listens_to = self._masters()
            for server in self._servers():
                listening = server.pubsub(ignore_subscribe_messages=True)
                self._listening.append(listening)
                listening.psubscribe(pattern(f"__keyspace@{self.database}__:{prefix}", "*"))

    def changes(self, most: int) -> list[tuple[bytes, str]]:
        """Up to ``most`` changes of each server that were heard: key and event, such as "set". Does not wait."""
        heard = []
        skip = len(f"__keyspace@{self.database}__:")
        with self._explained():
            for listening in self._listening:
                for _ in range(most):
                    message = listening.get_message(timeout=0)
                    if message is None and not listening.connection.can_read(0):
                        break
                    if message is not None and message["type"] == "pmessage":
                        heard.append((message["channel"][skip:], message["data"].decode("ascii", "replace")))
        return heard

    def stop_listening(self) -> None:
        for listening in self._listening:
            with suppress(RedisError, OSError):
                listening.close()
        self._listening = []

    @property
    def is_listening(self) -> bool:
        """To every server that has keys."""
        return bool(self._listening) and self._listens_to == self._masters()

    def _masters(self) -> set[str]:
        return {str(node.name) for node in self._client.get_primaries()} if self.is_cluster else set()


def pattern(prefix: str, tail: str) -> str:
    """A glob of Redis for what begins with this text."""
    return _GLOB.sub(r"\\\1", prefix) + tail


def _text(value: Any, ttl: Any) -> RawSession:
    if isinstance(ttl, Exception):
        raise ttl
    if isinstance(value, Exception):
        if "WRONGTYPE" in str(value):
            return RawSession(None, ttl, "another type")
        raise value
    if len(value) > LONGEST:
        return RawSession(None, ttl, "too long")
    return RawSession(value, ttl)


def _fits(sizes: Sequence[Any]) -> str:
    for size in sizes:
        if isinstance(size, Exception):
            if "WRONGTYPE" in str(size):
                return "another type"
            raise size
    return "too long" if sum(sizes) > LONGEST else ""


def _now_hash(fields: Sequence[str], pipe: Any, key: bytes) -> RawSession:
    try:
        values = pipe.hmget(key, fields)
    except ResponseError:
        return RawSession(None, NO_EXPIRY, "another type")
    is_gone = all(value is None for value in values)
    return RawSession(dict(zip(fields, values, strict=True)), GONE if is_gone else NO_EXPIRY)
