"""The flow that both drivers follow: what is sent where, what may be sent again, and what each failure means.

What may be sent again: a call that was never written to a socket; a call that Redis answered without running it (MOVED,
TRYAGAIN, LOADING, …); a ``safe`` call. A write whose reply was lost is none of these and ends as OutcomeUnknown.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import redis
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    RedisClusterException,
    ResponseError,
    SlotNotCoveredError,
)

from presence_core.errors import CorruptData, OutcomeUnknown, PresenceError, Unavailable
from presence_core.keyspace import hashed
from presence_core.scripts import EVERY, Call, command

_PAUSES: Final = (0.02, 0.05, 0.1, 0.2)  # seconds between tries; the call's own time limit ends them
NOT_RUN: Final = ("TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY")
LOST: Final = (redis.ConnectionError, redis.TimeoutError, OSError)  # the builtin TimeoutError is an OSError


@dataclass(slots=True)
class Failed:
    """A node did not answer. ``sent``: the calls were written, so they may have run."""

    error: BaseException
    sent: bool


@dataclass(slots=True)
class Send:
    """Ask each node its commands; answers, in the same order, a list of replies or a Failed."""

    groups: list[tuple[Any, list[Call]]]
    until: float
    first: bool = False  # the socket's own time limit is the call's


@dataclass(slots=True)
class Pause:
    """Wait, then learn the cluster's layout anew if ``refresh``."""

    seconds: float
    refresh: bool


Flow = Generator[Send | Pause, Any, list[Any]]


class Router(Protocol):
    """Where calls go. A node is whatever the driver takes connections from."""

    many: bool

    def node(self, key: str) -> Any: ...
    def node_at(self, host: str, port: int) -> Any: ...
    def name(self, node: Any) -> str: ...


def _address(kwargs: dict[str, Any]) -> str:
    if "path" in kwargs:
        return str(kwargs["path"])
    return f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}"


class One:
    """A single Redis, or a Sentinel's master: one pool."""

    many = False

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def node(self, key: str) -> Any:
        return self._pool

    def node_at(self, host: str, port: int) -> Any:
        return self._pool

    def name(self, node: Any) -> str:
        manager = getattr(node, "sentinel_manager", None)
        if manager is not None:
            hosts = ", ".join(_address(s.connection_pool.connection_kwargs) for s in manager.sentinels)
            return f"{node.service_name} by Sentinel {hosts}"
        return _address(node.connection_kwargs)


class Many:
    """A cluster: the node that serves the slot of the key's tag."""

    many = True

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._slots: dict[str, int] = {}

    def node(self, key: str) -> Any:
        tag = hashed(key)
        slot = self._slots.get(tag)
        if slot is None:
            slot = self._slots[tag] = key_slot(tag.encode())
        return self._cluster.nodes_manager.get_node_from_slot(slot)

    def node_at(self, host: str, port: int) -> Any:
        return self._cluster.nodes_manager.get_node(host=host, port=port)

    def name(self, node: Any) -> str:
        return f"{node.host}:{node.port}"


# -- one flow for both worlds -----------------------------------------------------------------------------------------


def exchange(router: Router, calls: list[Call], timeout: float) -> Flow:
    """Send a batch; answer its replies, in order; raise what the first failed call means."""
    until = time.monotonic() + timeout
    replies: list[Any] = [None] * len(calls)
    pending = list(range(len(calls)))
    tries = 0
    while True:
        error: BaseException | None = None
        where = ""
        again: list[int] = []
        refresh = False
        try:
            groups = _by_node(router, calls, pending)
        except (SlotNotCoveredError, RedisClusterException) as uncovered:
            groups, error, again, refresh = [], uncovered, pending, True
        answers = yield Send([(node, [calls[i] for i in places]) for node, places in groups], until, tries == 0)
        for (node, places), answer in zip(groups, answers, strict=True):
            if isinstance(answer, Failed):
                error, where, refresh = answer.error, router.name(node), True
                if answer.sent and not all(calls[i].safe for i in places):
                    raise OutcomeUnknown(
                        f"Redis at {where} did not answer a change in time; it may have happened: "
                        f"look, or call again ({plain(answer.error)}).",
                        where,
                    ) from answer.error
                if isinstance(answer.error, AuthenticationError):
                    raise meaning(answer.error, where) from answer.error
                again += places
                continue
            failed = False
            for i, reply in zip(places, answer, strict=True):
                replies[i] = reply
                failed = failed or isinstance(reply, Exception)
            if failed:
                settled = yield from _settle(router, node, calls, places, replies, until)
                if settled is not None:
                    error, where, refresh = settled, router.name(node), True
                    again += [i for i in places if isinstance(replies[i], Exception)]
        if not again:
            return replies
        assert error is not None
        crowded = isinstance(error, redis.MaxConnectionsError)  # the server is well: wait for one that others use
        if time.monotonic() >= until or (tries >= len(_PAUSES) and not router.many and not crowded):
            raise meaning(error, where) from error
        seconds = min(_PAUSES[min(tries, len(_PAUSES) - 1)], max(0.0, until - time.monotonic()))
        yield Pause(seconds, refresh and not crowded)
        pending, tries = again, tries + 1


def _by_node(router: Router, calls: list[Call], places: list[int]) -> list[tuple[Any, list[int]]]:
    if not router.many:
        return [(router.node(""), places)]
    groups: dict[Any, list[int]] = {}
    for i in places:
        groups.setdefault(router.node(calls[i].key), []).append(i)
    return list(groups.items())


def _settle(
    router: Router, node: Any, calls: list[Call], places: list[int], replies: list[Any], until: float
) -> Generator[Send | Pause, Any, BaseException | None]:
    """Deal with error replies. Answers the error for which it is worth trying again, or None when all are settled."""
    unknown = [i for i in places if isinstance(replies[i], NoScriptError)]
    if unknown:
        # What came behind it counts on it, such as the tidying behind a kick: it goes again, where it may.
        behind = places[places.index(unknown[0]) :]
        again = [i for i in behind if calls[i].safe or isinstance(replies[i], NoScriptError)]
        # All of them: were only some known, a read that stands before a change would be sent again behind it.
        loads = [command("", "SCRIPT", "LOAD", script.text) for script in EVERY]
        [answer] = yield Send([(node, loads + [calls[i] for i in again])], until)
        if isinstance(answer, Failed):
            if answer.sent and not all(calls[i].safe for i in again):
                raise OutcomeUnknown(f"Redis at {router.name(node)} did not answer a change in time; look again.")
            return answer.error
        for i, reply in zip(again, answer[len(loads) :], strict=True):
            replies[i] = reply
        for reply in answer[: len(loads)]:
            if isinstance(reply, Exception):
                raise meaning(reply, router.name(node)) from reply
    for i in places:
        if isinstance(reply := replies[i], AskError):
            target = router.node_at(reply.host, reply.port)
            [answer] = yield Send([(target, [command("", "ASKING"), calls[i]])], until)
            replies[i] = answer.error if isinstance(answer, Failed) else answer[1]
    for i in places:
        reply = replies[i]
        if not isinstance(reply, Exception):
            continue
        if calls[i].lenient and "WRONGTYPE" in str(reply):
            replies[i] = None
            continue
        if isinstance(reply, MovedError) or code_of(reply) in NOT_RUN:
            return reply
        if isinstance(reply, LOST) and calls[i].safe:
            return reply
        raise meaning(reply, router.name(node)) from reply
    return None


def code_of(error: BaseException) -> str:
    """The error's first word: redis-py strips some codes and turns them into classes."""
    name = type(error).__name__
    by_class = {"BusyLoadingError": "LOADING", "ReadOnlyError": "READONLY", "TryAgainError": "TRYAGAIN",
                "ClusterDownError": "CLUSTERDOWN", "MasterDownError": "MASTERDOWN"}  # fmt: skip
    return by_class.get(name) or str(error).partition(" ")[0]


def plain(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


def meaning(error: BaseException, where: str) -> PresenceError:
    """What a failure says to our caller. Redis's own sentence is passed on: it names no secret."""
    if isinstance(error, PresenceError):
        return error
    code, at = code_of(error), f"Redis at {where}" if where else "Redis"
    said = plain(error)
    if code == "WRONGTYPE" or "WRONGTYPE" in said:
        return CorruptData(f"{at}: {said.replace('WRONGTYPE ', '')}. Another program shares this namespace.")
    if isinstance(error, AuthenticationError) or code in ("NOAUTH", "WRONGPASS"):
        return Unavailable(f"{at} refused the user name or password.", where)
    in_script = "ACL failure in script" in said or "executing the script can't run this command" in said
    if isinstance(error, NoPermissionError) or code == "NOPERM" or in_script:
        return Unavailable(
            f"{at} does not permit this: {said}. Give the ACL user what docs/architecture.md lists.", where, "NOPERM"
        )
    if isinstance(error, redis.OutOfMemoryError) or code == "OOM":
        return Unavailable(
            f"{at} is out of memory: logins wait until maxmemory is raised or sessions end.", where, "OOM"
        )
    explained = {
        "LOADING": "is still loading its data",
        "READONLY": "is a replica and takes no writes",
        "BUSY": "is busy with another program's script",
        "CLUSTERDOWN": "is part of a cluster that is down",
        "MASTERDOWN": "has lost its master",
        "TRYAGAIN": "is moving this slot to another node",
    }.get(code)
    if explained:
        return Unavailable(f"{at} {explained}; try again.", where, code)
    if isinstance(error, ResponseError):
        return CorruptData(f"{at} could not run a script: {said}.")
    if isinstance(error, redis.exceptions.MaxConnectionsError) or said == "Too many connections":
        return Unavailable(f"All connections to {at} that its pool allows are in use.", where)
    return Unavailable(f"{at} cannot be reached ({said}).", where)
