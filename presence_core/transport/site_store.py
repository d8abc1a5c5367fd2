"""The Redis in which a site keeps its sessions: read in slices, listen, and delete only what still is what it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, RedisError, ResponseError, WatchError

from presence_core.errors import Unavailable
from presence_core.transport.connections import closers, connect, server_name
from presence_core.transport.errors import explained

LONGEST: Final = 1_048_576
"""Bytes of a session that are read, and of all that are read together. A longer one is skipped."""

USUAL: Final = 16_384
"""Bytes of a text that are read at once. The server is asked how long a longer one is, before the rest is read."""

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
        """The sessions of these keys. A round trip for READ_TOGETHER of them; more for hashes and for long texts."""
        read = self._hashes if self._fields else self._texts
        found: list[RawSession] = []
        with self._explained():
            for at in range(0, len(keys), READ_TOGETHER):
                found += read(keys[at : at + READ_TOGETHER])
        return found

    def _texts(self, keys: Sequence[bytes]) -> list[RawSession]:
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.getrange(key, 0, USUAL - 1)
            pipe.pttl(key)
        replies = pipe.execute(raise_on_error=False)
        values = dict(zip(keys, replies[::2], strict=True))
        values |= self._long_texts([key for key, value in values.items() if _is_cut(value)])
        return [_text(values[key], ttl) for key, ttl in zip(keys, replies[1::2], strict=True)]

    def _long_texts(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """The whole texts of these keys, as many at once as are short enough together; None: too long."""
        found: dict[bytes, Any] = {}
        for part in _together(keys, self._sizes(self._client, keys)):
            pipe = self._client.pipeline(transaction=False)
            for key in part.fit:
                pipe.getrange(key, 0, LONGEST)
            found |= zip(part.fit, pipe.execute(raise_on_error=False), strict=True)
            found |= dict.fromkeys(part.too_long)
        return found

    def _sizes(self, server: Any, keys: Sequence[bytes]) -> list[Any]:
        """Bytes of what would be read of each key; an error for a key of another type. A round trip."""
        pipe = server.pipeline(transaction=False)
        for key in keys:
            for words in self._size_commands(key):
                pipe.execute_command(*words)
        sizes = pipe.execute(raise_on_error=False)
        width = len(self._fields) or 1
        return [_sum(sizes[at : at + width]) for at in range(0, len(sizes), width)]

    def _size_commands(self, key: bytes) -> list[Words]:
        return [("HSTRLEN", key, field) for field in self._fields] or [("STRLEN", key)]

    def _hashes(self, keys: Sequence[bytes]) -> list[RawSession]:
        found: dict[bytes, RawSession] = {}
        sizes = self._sizes(self._client, keys)
        for part in _together(keys, sizes):
            own = [*part.fit, *part.too_long]
            pipe = self._client.pipeline(transaction=False)
            for key in own:
                pipe.hmget(key, self._fields if key in part.fit else ["-"])
                pipe.pttl(key)
            replies = pipe.execute(raise_on_error=False)
            for key, values, ttl in zip(own, replies[::2], replies[1::2], strict=True):
                found[key] = self._hash(values, ttl, "" if key in part.fit else "too long")
        return [found[key] for key in keys]

    def _hash(self, values: Any, ttl: Any, problem: str) -> RawSession:
        if isinstance(ttl, Exception):
            raise ttl
        if isinstance(values, Exception):
            _raise_unless_wrong_type(values)
            problem = "another type"
        if problem:
            return RawSession(None, ttl, problem)
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
                sizes = self._sizes(server, keys)
                long = {key for key, size in zip(keys, sizes, strict=True) if _is_too_long(size)}
                try:
                    pipe.watch(*keys)
                    wanted = [(key, raw) for key, raw in zip(keys, self._now(pipe, keys, long), strict=True)
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
                    if len(keys) > 1:  # each alone: a busy session must not keep the others
                        return [key for each in keys for key in self._delete_some(server, [each], is_wanted, more)]
        return list(keys)

    def _now(self, pipe: Any, keys: Sequence[bytes], long: Collection[bytes]) -> list[RawSession]:
        """The sessions as the transaction sees them. long: those that were too long to read just before it."""
        found = {key: RawSession(None, NO_EXPIRY, "too long") for key in long if self._is_long_now(pipe, key)}
        rest = [key for key in keys if key not in found]
        if self._fields:
            found |= {key: _now_hash(self._fields, pipe, key) for key in rest}
        elif rest:
            found |= {key: RawSession(value, GONE if value is None else NO_EXPIRY)
                      for key, value in zip(rest, pipe.mget(rest), strict=True)}  # fmt: skip
        return [found[key] for key in keys]

    def _is_long_now(self, pipe: Any, key: bytes) -> bool:
        try:
            return _is_too_long(sum(pipe.execute_command(*words) for words in self._size_commands(key)))
        except ResponseError:  # another type by now
            return False

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


def _raise_unless_wrong_type(error: Exception) -> None:
    if "WRONGTYPE" not in str(error):
        raise error


def _text(value: Any, ttl: Any) -> RawSession:
    if isinstance(ttl, Exception):
        raise ttl
    if isinstance(value, Exception):
        _raise_unless_wrong_type(value)
        return RawSession(None, ttl, "another type")
    if value is None or len(value) > LONGEST:
        return RawSession(None, ttl, "too long")
    return RawSession(value, ttl)


def _is_cut(value: Any) -> bool:
    """Whether a text may go on behind what was read."""
    return isinstance(value, bytes) and len(value) >= USUAL


def _sum(sizes: Sequence[Any]) -> Any:
    """The sum, or the error of a key of another type. Raises another error."""
    errors = [size for size in sizes if isinstance(size, Exception)]
    for error in errors:
        _raise_unless_wrong_type(error)
    return errors[0] if errors else sum(sizes)


def _is_too_long(size: Any) -> bool:
    return isinstance(size, int) and size > LONGEST


class _Part(NamedTuple):
    """Keys whose values are read together."""

    fit: list[bytes]
    too_long: list[bytes]


def _together(keys: Sequence[bytes], sizes: Sequence[Any]) -> Iterator[_Part]:
    """Parts of the keys whose values are short enough together. An error has no size: the read meets it again."""
    part, total = _Part([], []), 0
    for key, size in zip(keys, sizes, strict=True):
        if _is_too_long(size):
            part.too_long.append(key)
            continue
        size = size if isinstance(size, int) else 0
        if total + size > LONGEST and part.fit:
            yield part
            part, total = _Part([], []), 0
        part.fit.append(key)
        total += size
    if part.fit or part.too_long:
        yield part


def _now_hash(fields: Sequence[str], pipe: Any, key: bytes) -> RawSession:
    try:
        values = pipe.hmget(key, fields)
    except ResponseError:
        return RawSession(None, NO_EXPIRY, "another type")
    is_gone = all(value is None for value in values)
    return RawSession(dict(zip(fields, values, strict=True)), GONE if is_gone else NO_EXPIRY)
