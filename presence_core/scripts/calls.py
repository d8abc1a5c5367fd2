"""Calls: one command to one shard, and the operations that yield batches of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from presence_core.keyspace import fence_of
from presence_core.scripts.script import AnyScript

P = ParamSpec("P")
T = TypeVar("T")

Wire = Sequence[str | bytes | int]


_TEXT: Final = frozenset((str, bytes))
_NUMBERS: Final = (int, float)


def as_text(words: Wire) -> tuple[str | bytes, ...]:
    """The command as it is sent, with numbers as text."""
    if _TEXT.issuperset(map(type, words)):
        return tuple(words)  # type: ignore[arg-type]  # as was just tested
    sent: list[Any] = [word if type(word) in _TEXT or not isinstance(word, _NUMBERS) else str(word) for word in words]
    return tuple(sent)


@dataclass(slots=True)
class Call:
    """One command to one shard: a script with its keys, or a plain command. ``key`` decides the node."""

    key: str
    wire: Wire | Callable[[], Wire]  #: the command as it is sent, or a function that builds it, in a large batch
    repeatable: bool  #: may be sent again when its reply was lost
    script: AnyScript | None = None
    lenient: bool = False  #: the reply is None where the key is of a foreign type
    at: str = ""  #: send it to this node of a cluster, by its address, and not to the node that serves the key
    waits: bool = False  #: WAIT, or INFO for it: the reply is 0 if it fails, or if an earlier call was redirected
    is_short: bool = False  #: its reply is short, other than most of its script: it may share a connection

    @property
    def words(self) -> Wire:
        """The command, built now if it has to be."""
        return self.wire() if callable(self.wire) else self.wire


Op = Generator[list[Call], list[Any], T]
"""An operation: yields batches of calls, receives their replies, returns its result. Knows no driver."""

CHECKED: Final[list[Call]] = []
"""What an operation yields once it has checked its arguments: see ``checked_first``."""


def checked_first(operation: Callable[P, Op[T]]) -> Callable[P, Op[T]]:
    """Run an operation up to ``yield CHECKED`` as soon as it is called. So it refuses an invalid argument before
    anything is sent, even before the client has read the layout, on which the rest may rely."""

    @wraps(operation)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Op[T]:
        steps = operation(*args, **kwargs)
        first = next(steps)
        assert first is CHECKED, "an operation yields CHECKED before any calls"
        return steps

    return begin


def call_of(script: AnyScript, keys: Sequence[Any], /, *args: str | bytes | int, **named: str | bytes | int) -> Call:
    """A call of this script. ``named``: the arguments that it names; ``args`` come behind them."""
    assert script.args == () or named.keys() == set(script.args), f"{script.name} has the arguments {script.args}"
    if named:
        args = (*(named[name] for name in script.args), *args)
    if script.fenced:
        keys = (*keys, fence_of(keys[0]))
    return Call(keys[0], (script.command, script.sha, str(len(keys)), *keys, *args), script.repeatable, script)


def later(key: str, script: AnyScript, build: Callable[[], Call]) -> Call:
    """A call that is built while the server runs the calls before it."""
    return Call(key, lambda: build().words, script.repeatable, script)


def command(key: str, *wire: str | bytes | int, repeatable: bool = True, lenient: bool = False) -> Call:
    """A call of a plain command. ``key`` decides the node: a key, or its hash tag."""
    return Call(key, wire, repeatable, lenient=lenient)


def ask(node: str, *wire: str) -> Call:
    """A call of a command without a key on one node, by the address that the transport gave."""
    return Call("", wire, True, at=node)


def wait(key: str, replicas: int, ms: int) -> Call:
    """How many replicas have the writes to this shard on this connection: at the end of a batch."""
    return Call(key, ("WAIT", replicas, ms), True, waits=True)


def server_info(key: str) -> Call:
    """INFO of the server that answers this batch; ``held_changes.identity_of`` reads it. Before every WAIT."""
    return Call(key, ("INFO", "server", "replication"), True, waits=True)


def by_two(flat: Sequence[Any]) -> zip[tuple[Any, Any]]:
    """The pairs of [a, b, a, b, …]."""
    return zip(flat[::2], flat[1::2], strict=True)


def pairs(reply: Any) -> list[tuple[bytes, bytes]]:
    """The pairs of a hash: flat by RESP2, and from any script; a dict by RESP3."""
    return list(reply.items() if isinstance(reply, dict) else by_two(reply))


def scored(reply: Any) -> list[tuple[bytes, float]]:
    """Members with their scores: flat by RESP2; nested, with floats, by RESP3."""
    is_nested = bool(reply) and isinstance(reply[0], list)
    return [(member, float(score)) for member, score in (reply if is_nested else by_two(reply))]
