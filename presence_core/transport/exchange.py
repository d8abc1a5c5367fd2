"""The flow that both drivers follow: what is sent where, and what may be sent again. What a failure means: ``meaning``.

What may be sent again: a call that was never written to a socket; a call that Redis answered without running it (MOVED,
TRYAGAIN, LOADING, …); a ``safe`` call. A write whose reply was lost is none of these and ends as OutcomeUnknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import Any, Final, Protocol

import redis
from redis.exceptions import (
    AskError,
    AuthenticationError,
    MovedError,
    NoScriptError,
    RedisClusterException,
    SlotNotCoveredError,
)

from presence_core.errors import OutcomeUnknown
from presence_core.keyspace import hashed, slot
from presence_core.scripts import EVERY, Call, command
from presence_core.transport import tls as secure
from presence_core.transport.meaning import code_of, foreign, is_unnamed, meaning, plain, probes

_PAUSES: Final = (0.02, 0.05, 0.1, 0.2)  # seconds between tries; the call's own time limit ends them
NOT_RUN: Final = (
    "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "NOREPLICAS", "MISCONF"
)  # fmt: skip
LOST: Final = (redis.ConnectionError, redis.TimeoutError, OSError)  # the builtin TimeoutError is an OSError


FRESH: Final = 0.5
"""Seconds for which a node of a cluster that has answered is the master, as it was. Below any node-timeout."""


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
    """Wait, then learn the cluster's layout anew if ``refresh``, as far as that can be had in time."""

    seconds: float
    refresh: bool
    until: float


Flow = Generator[Send | Pause, Any, list[Any]]


class Router(Protocol):
    """Where calls go. A node is whatever the driver takes connections from."""

    many: bool
    tls: bool  #: whether we speak TLS there

    def node(self, key: str) -> Any: ...
    def node_at(self, host: str, port: int) -> Any: ...
    def name(self, node: Any) -> str: ...
    def names(self) -> list[str]: ...


def _address(kwargs: dict[str, Any]) -> str:
    if "path" in kwargs:
        return str(kwargs["path"])
    return f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}"


class One:
    """A single Redis, or a Sentinel's master: one pool."""

    many = False

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.tls = "SSL" in pool.connection_class.__name__

    def node(self, key: str) -> Any:
        return self._pool

    def node_at(self, host: str, port: int) -> Any:
        return self._pool

    def names(self) -> list[str]:
        return [self.name(self._pool)]

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
        self.heard: dict[str, float] = {}  #: when each node last answered, monotonic
        self.asking: dict[str, threading.Thread] = {}  #: the nodes that are being asked about another
        self.suspect: str | None = None  #: the node that is asked last for the layout
        kwargs = cluster.nodes_manager.connection_kwargs
        self.tls = bool(kwargs.get("ssl")) or "SSL" in getattr(kwargs.get("connection_class"), "__name__", "")

    def node(self, key: str) -> Any:
        tag = hashed(key)
        number = self._slots.get(tag)
        if number is None:
            number = self._slots[tag] = slot(tag)
        nodes = self._cluster.nodes_manager.slots_cache.get(number)  # get_node_from_slot costs three times all the rest
        if not nodes:
            raise SlotNotCoveredError(f"no node that we know of serves slot {number}")
        return nodes[0]  # the master; replicas behind it

    def node_at(self, host: str, port: int) -> Any:
        return self._cluster.nodes_manager.get_node(host=host, port=port)

    def names(self) -> list[str]:
        return sorted(self.name(node) for node in self._cluster.get_primaries())

    def name(self, node: Any) -> str:
        return f"{node.host}:{node.port}"

    # A node that was stopped and replaced serves what has queued up before it hears of that. So one that has not
    # answered us for a while is used only once another master has named it. A failover takes longer than that while.

    def is_fresh(self, node: Any) -> bool:
        """Whether it has just answered."""
        return time.monotonic() - self.heard.get(node.name, -FRESH) < FRESH

    def others(self, node: Any) -> list[Any]:
        """The masters to ask about it, those first that answered last."""
        others = [one for one in self._cluster.get_primaries() if one.name != node.name]
        return sorted(others, key=lambda one: -self.heard.get(one.name, 0.0))[:2]

    def compare(self, node: Any, other: Any, slots: list[Any], asked: float) -> None:
        """Raise if the other's layout (CLUSTER SLOTS) gives this node's slots to another, or it others' slots."""
        manager = self._cluster.nodes_manager
        for first, last, (host, port, *_), *_ in slots:
            named = manager.remap_host_port(host.decode() or other.host, int(port))
            named = ("127.0.0.1" if named[0] == "localhost" else named[0], named[1])
            for number in (first, last):
                known = manager.slots_cache.get(number)
                if not known or ((known[0].name == node.name) != (named == (node.host, node.port))):
                    self.suspect = node.name
                    self.heard.pop(node.name, None)
                    raise redis.ConnectionError(f"{node.name} may have been replaced")
        self.heard[node.name] = asked


# -- one flow for both worlds -----------------------------------------------------------------------------------------


def exchange(router: Router, calls: list[Call], timeout: float) -> Flow:
    """Send a batch; answer its replies, in order; raise what the first failed call means."""
    until = time.monotonic() + timeout
    replies: list[Any] = [None] * len(calls)
    pending = list(range(len(calls)))
    same: dict[int, int] = {}  # WAITs and INFOs that were not sent, and whose answer stands for them
    tries = 0
    while True:
        error: BaseException | None = None
        where = ""
        greeting: bool | None = None  # it failed while connecting: whether by TLS
        again: list[int] = []
        refresh = False
        frozen = False  # the shard is being copied to another layout
        try:
            groups = _by_node(router, calls, pending)
            if calls and calls[-1].waits:
                _once_a_node(calls, groups, same)
        except (SlotNotCoveredError, RedisClusterException) as uncovered:
            groups, error, again, refresh = [], uncovered, pending, True
        answers = yield Send([(node, [calls[i] for i in places]) for node, places in groups], until, tries == 0)
        for (node, places), answer in zip(groups, answers, strict=True):
            if isinstance(answer, Failed):
                error, where, refresh = answer.error, router.name(node), True
                greeting = router.tls if not answer.sent or secure.is_refusal(answer.error) else None
                if answer.sent and not all(calls[i].safe for i in places):
                    raise OutcomeUnknown(
                        f"Redis at {where} did not answer a change in time; it may have happened: "
                        f"look, or call again ({plain(answer.error)}).",
                        where,
                    ) from answer.error
                if isinstance(answer.error, AuthenticationError) or secure.is_refusal(answer.error):
                    raise meaning(answer.error, where, tls=greeting) from answer.error
                again += places
                continue
            failed = False
            for i, reply in zip(places, answer, strict=True):
                replies[i] = reply
                failed = failed or isinstance(reply, Exception)
            if failed:
                settled = yield from _settle(router, node, calls, places, replies, until)
                if settled is not None:
                    error, where = settled, router.name(node)
                    frozen = code_of(settled) == "LAYOUT"
                    refresh = refresh or not frozen
                    again += [i for i in places if isinstance(replies[i], Exception)]
        if not again:
            for i, sent in same.items():
                replies[i] = replies[sent]
            return replies
        assert error is not None
        crowded = isinstance(error, redis.MaxConnectionsError)  # the server is well: wait for one that others use
        if time.monotonic() >= until or (tries >= len(_PAUSES) and not router.many and not (crowded or frozen)):
            raise meaning(error, where, tls=greeting) from error
        seconds = min(_PAUSES[min(tries, len(_PAUSES) - 1)], max(0.0, until - time.monotonic()))
        yield Pause(seconds, refresh and not crowded, until)
        for i in same:  # what goes again may go elsewhere
            replies[i] = 0
        same.clear()
        pending, tries = again, tries + 1


def _by_node(router: Router, calls: list[Call], places: list[int]) -> list[tuple[Any, list[int]]]:
    if not router.many:
        return [(router.node(""), places)]
    groups: dict[Any, list[int]] = {}
    for i in places:
        groups.setdefault(_node_of(router, calls[i]), []).append(i)
    return list(groups.items())


def _node_of(router: Router, call: Call) -> Any:
    if not call.at:
        return router.node(call.key)
    host, _, port = call.at.rpartition(":")
    node = router.node_at(host, int(port))
    if node is None:
        raise RedisClusterException(f"{call.at} is no node of this cluster any more")
    return node


def server_of(router: Router, key: str) -> str:
    """The address of the node that serves a key, as far as this client knows; "" for none."""
    try:
        return router.name(router.node(key))
    except (SlotNotCoveredError, RedisClusterException):
        return ""


def _once_a_node(calls: list[Call], groups: list[tuple[Any, list[int]]], same: dict[int, int]) -> None:
    """One WAIT tells of all that was written before it, whichever shard: several would wait one after the other. So
    does one INFO."""
    for _, places in groups:
        kinds: dict[Any, list[int]] = {}
        for i in places:
            if calls[i].waits:
                kinds.setdefault(calls[i].words[0], []).append(i)
        for alike in kinds.values():
            same.update(dict.fromkeys(alike[:-1], alike[-1]))
        places[:] = [i for i in places if i not in same]


def _settle(
    router: Router, node: Any, calls: list[Call], places: list[int], replies: list[Any], until: float
) -> Generator[Send | Pause, Any, BaseException | None]:
    """Deal with error replies. Answers the error for which it is worth trying again, or None when all are settled."""
    if any(isinstance(replies[i], NoScriptError) for i in places):
        lost = yield from _reload(router, node, calls, places, replies, until)
        if lost is not None:
            return lost
    for i in places:
        reply = replies[i]
        if isinstance(reply, AskError) and not isinstance(reply, MovedError):  # which redis-py takes for one of those
            _void(calls, places, replies)
            target = router.node_at(reply.host, reply.port)
            if target is not None:  # a node that has only joined, and gets its first slot, is in nobody's layout yet
                replies[i] = yield from _ask(router, target, calls[i], until)
    for i in places:
        reply = replies[i]
        if not isinstance(reply, Exception):
            continue
        if calls[i].lenient and "WRONGTYPE" in str(reply):
            replies[i] = None
            continue
        if calls[i].waits:  # the change is made, whatever became of this
            replies[i] = 0
            continue
        if (
            isinstance(reply, AskError)
            or code_of(reply) in NOT_RUN
            or _is_frozen(reply)
            or (isinstance(reply, LOST) and calls[i].safe)
        ):
            _void(calls, places, replies)
            return reply
        said = (yield from _named(node, calls[i], until)) if is_unnamed(reply) else reply
        raise meaning(said, router.name(node), doing=calls[i]) from reply
    return None


def _reload(
    router: Router, node: Any, calls: list[Call], places: list[int], replies: list[Any], until: float
) -> Generator[Send | Pause, Any, BaseException | None]:
    """Load the scripts, and send again what did not run, as often as they are flushed meanwhile and until time is up.
    Answers the error of a connection that was lost, when all that is left may be sent again."""
    # All of them: were only some known, a read that stands before a change would be sent again behind it.
    loads = list(EVERY)
    part = waiting = _not_run(calls, places, replies)
    parted = waiting[0] != places[0]  # what stood before may have been answered by another master
    while True:
        sent = [command("", "SCRIPT", "LOAD", script.text) for script in loads] + [calls[i] for i in part]
        [answer] = yield Send([(node, sent)], until)
        if isinstance(answer, Failed):
            if answer.sent and not all(calls[i].safe for i in part):
                raise OutcomeUnknown(f"Redis at {router.name(node)} did not answer a change in time; look again.")
            for i in waiting:
                replies[i] = answer.error
            return answer.error
        for i, reply in zip(part, answer[len(loads) :], strict=True):
            replies[i] = reply
        for reply in answer[: len(loads)]:
            if isinstance(reply, Exception):
                raise meaning(reply, router.name(node)) from reply
        waiting = _not_run(calls, part, replies) + waiting[len(part) :]
        if not waiting:
            if parted:
                _void(calls, places, replies)
            return None
        # Flushed again: from now on each script goes right before the calls of it, which a flush hardly ever parts, and
        # one after the other, so that no call overtakes another.
        parted, script = True, calls[waiting[0]].script
        part = list(takewhile(lambda i, script=script: calls[i].script in (script, None), waiting))  # type: ignore[misc]
        loads = [script] if script is not None else []
        if time.monotonic() >= until:
            flushed = NoScriptError("No matching script")
            raise meaning(flushed, router.name(node)) from flushed


def _not_run(calls: list[Call], places: list[int], replies: list[Any]) -> list[int]:
    """From the first call on whose script was unknown: what came behind it counts on it, such as the tidying behind a
    kick, and goes again, where it may."""
    behind = dropwhile(lambda i: not isinstance(replies[i], NoScriptError), places)
    return [i for i in behind if calls[i].safe or isinstance(replies[i], NoScriptError)]


def _named(node: Any, call: Call, until: float) -> Generator[Send | Pause, Any, Exception]:
    """A key of this call is of a foreign type, and Redis does not say which: each is asked by itself."""
    asking = probes(call)
    [answer] = (yield Send([(node, asking)], until)) if asking else [[]]
    return foreign(call, asking, [] if isinstance(answer, Failed) else answer)


def _is_frozen(error: Exception) -> bool:
    """The shard is being copied to another layout, and takes no writes until that is done."""
    return str(error).startswith("LAYOUT frozen")


def _ask(router: Router, target: Any, call: Call, until: float) -> Generator[Send | Pause, Any, Any]:
    """Send one call where its keys have gone to. A node that has only joined knows no script yet."""
    loads: list[Call] = []
    while True:
        [answer] = yield Send([(target, [*loads, command("", "ASKING"), call])], until)
        if isinstance(answer, Failed):
            if answer.sent and not call.safe:
                raise OutcomeUnknown(
                    f"Redis at {router.name(target)} did not answer a change in time; it may have happened: "
                    f"look, or call again ({plain(answer.error)}).",
                    router.name(target),
                ) from answer.error
            return answer.error
        if call.script is None or not isinstance(answer[-1], NoScriptError) or time.monotonic() >= until:
            return answer[-1]
        others = [script for script in EVERY if script is not call.script]  # its own last: a flush hardly parts the two
        loads = [command("", "SCRIPT", "LOAD", script.text) for script in (*others, call.script)]


def _void(calls: list[Call], places: list[int], replies: list[Any]) -> None:
    """A part of these went to another node, or goes again: what the replicas of this one have says nothing of it."""
    for i in places:
        if calls[i].waits:
            replies[i] = 0
