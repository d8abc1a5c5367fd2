"""The flow that both drivers follow: what is sent where, what may be sent again, and what each failure means.

What may be sent again: a call that was never written to a socket; a call that Redis answered without running it (MOVED,
TRYAGAIN, LOADING, …); a ``safe`` call. A write whose reply was lost is none of these and ends as OutcomeUnknown.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import redis
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
from presence_core.keyspace import hashed, slot
from presence_core.scripts import EVERY, Call, command
from presence_core.transport import tls as secure

_PAUSES: Final = (0.02, 0.05, 0.1, 0.2)  # seconds between tries; the call's own time limit ends them
NOT_RUN: Final = (
    "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "NOREPLICAS", "MISCONF"
)  # fmt: skip
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


# -- one flow for both worlds -----------------------------------------------------------------------------------------


def exchange(router: Router, calls: list[Call], timeout: float) -> Flow:
    """Send a batch; answer its replies, in order; raise what the first failed call means."""
    until = time.monotonic() + timeout
    replies: list[Any] = [None] * len(calls)
    pending = list(range(len(calls)))
    same: dict[int, int] = {}  # WAITs that were not sent, and whose answer stands for them
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
    """One WAIT tells of all that was written before it, whichever shard: several would wait one after the other."""
    for _, places in groups:
        waits = [i for i in places if calls[i].waits]
        for i in waits[:-1]:
            places.remove(i)
            same[i] = waits[-1]


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
        if unknown[0] != places[0]:  # what stood before may have been answered by another master
            _void(calls, places, replies)
        for reply in answer[: len(loads)]:
            if isinstance(reply, Exception):
                raise meaning(reply, router.name(node)) from reply
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
        raise meaning(reply, router.name(node), doing=calls[i]) from reply
    return None


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
        if loads or not isinstance(answer[-1], NoScriptError):
            return answer[-1]
        loads = [command("", "SCRIPT", "LOAD", script.text) for script in EVERY]


def _void(calls: list[Call], places: list[int], replies: list[Any]) -> None:
    """A part of these went to another node, or goes again: what the replicas of this one have says nothing of it."""
    for i in places:
        if calls[i].waits:
            replies[i] = 0


def code_of(error: BaseException) -> str:
    """The error's first word: redis-py strips some codes and turns them into classes."""
    name = type(error).__name__
    by_class = {"BusyLoadingError": "LOADING", "ReadOnlyError": "READONLY", "TryAgainError": "TRYAGAIN",
                "ClusterDownError": "CLUSTERDOWN", "MasterDownError": "MASTERDOWN",
                "MovedError": "MOVED", "AskError": "ASK"}  # fmt: skip
    return by_class.get(name) or str(error).partition(" ")[0]


def _needed(doing: Call, said: str) -> str:
    """What the ACL user lacks, where Redis leaves it open: it names no key, and 7.0 no command of a script."""
    words = doing.words
    if doing.script is None:
        return f"{words[0]!s} on {doing.key!r}"
    place = re.search(r"@user_script:(\d+)", said)
    line = doing.script.text.splitlines()[int(place[1]) - 1] if place else ""
    if ran := re.search(r"redis\.p?call\('(\w+)'", line):
        return f"script {doing.script.name}: +{ran[1].lower()}"
    if "key" not in said:
        return f"script {doing.script.name}"
    tag = doing.key.partition("}")[0] + "}:"
    names = (str(key).removeprefix(tag).partition(":") for key in words[3 : 3 + int(words[2])])
    return f"script {doing.script.name} on {tag} " + ", ".join(
        dict.fromkeys(f"{name}{colon}{'*' if rest else ''}" for name, colon, rest in names)
    )


def plain(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


def meaning(error: BaseException, where: str, *, tls: bool | None = None, doing: Call | None = None) -> PresenceError:
    """What a failure says to our caller. Redis's own sentence is passed on: it names no secret. ``tls``, of one while
    connecting: whether that was by TLS."""
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
        what = "" if doing is None else f" ({_needed(doing, said)})"
        return Unavailable(
            f"{at} does not permit this: {said}{what}. docs/operations.md lists what ACL users need.", where, "NOPERM"
        )
    if isinstance(error, redis.OutOfMemoryError) or code == "OOM":
        return Unavailable(
            f"{at} is out of memory: what adds data waits until maxmemory is raised or sessions end.", where, "OOM"
        )
    explained = {
        "LAYOUT": "has data that are being moved to another number of shards (presence migrate)",
        "LOADING": "is still loading its data",
        "READONLY": "is a replica and takes no writes",
        "BUSY": "is busy with another program's script",
        "NOREPLICAS": "has too few replicas and takes no writes (min-replicas-to-write)",
        "MISCONF": "cannot save its data and takes no writes (its log says why)",
        "CLUSTERDOWN": "is part of a cluster that is down",
        "MASTERDOWN": "has lost its master",
        "TRYAGAIN": "is moving this slot to another node",
        "ASK": "is moving this slot to another node",
        "MOVED": "does not serve this slot any more",
    }.get(code)
    if explained:
        return Unavailable(f"{at} {explained}; try again.", where, code)
    if isinstance(error, ResponseError):
        return CorruptData(f"{at} could not run a script: {said}.")
    if isinstance(error, redis.exceptions.MaxConnectionsError) or said == "Too many connections":
        return Unavailable(f"All connections to {at} that its pool allows are in use.", where)
    if type(error).__name__ == "MasterNotFoundError":  # redis-py has two of that name; its text names objects
        papers = ", or their certificates and ours do not fit" if tls else ""
        return Unavailable(f"{at}: none of them names a master just now; they may be away{papers}.", where)
    if tls is not None and (of_tls := secure.told(said, asked=tls)):
        return Unavailable(f"{at} {of_tls}.", where)
    return Unavailable(f"{at} cannot be reached ({said}).", where)
