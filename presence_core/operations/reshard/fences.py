"""The fence of a shard: a hash that every script on the shard reads first (scripts/script.py). A coordinator claims it.

Its states: ``copying``, scripts note the keys that they are about to change; ``frozen``, reads go on and writes wait;
``coming``, the shard is not in use yet; ``moved``, it is not in use any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, TypeVar

from presence_core.errors import Unavailable
from presence_core.keyspace import Keyspace
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.reshard import CLAIM_FENCE

CLAIM_MS: Final = 10_000
"""ms for which a claim on a fence lasts, unless the coordinator renews it."""

RENEW_EVERY: Final = 1.0
"""Seconds. Not with each batch: a reshard from many shards has many batches, and as many fences to renew."""

KEEP_CHANGES: Final = 3_600_000
"""ms for which changes are noted after a coordinator died: as long the next one can resume its copy."""

KEEP_FENCE: Final = 7 * 86_400_000
"""ms for which the fences of shards that are not in use refuse a process that was suspended during a call. The shards
may have been in use before."""

T = TypeVar("T")


def lost() -> Unavailable:
    return Unavailable("The reshard lost its claim on the shards: call it again, it goes on from there.")


def fence_call(key: str, act: str, token: str, state: str = "frozen", copy: str = "", *, ms: int = CLAIM_MS) -> Call:
    """A call to lua/reshard/claim_fence.lua, which describes ``act``."""
    return call_of(CLAIM_FENCE, (key,), act, token, ms, state, copy)


@dataclass(frozen=True, slots=True)
class Fences:
    """The fences of all shards of one reshard, and the token of the coordinator that claims them."""

    old: Keyspace
    new: Keyspace
    token: str

    def coming(self, act: str) -> list[Call]:
        return [fence_call(s.moved, act, self.token, "coming", ms=KEEP_FENCE) for s in self.new.shards]

    def copying(self, act: str, copy: str = "") -> list[Call]:
        return [fence_call(s.moved, act, self.token, "copying", copy, ms=KEEP_CHANGES) for s in self.old.shards]

    def frozen(self, act: str) -> list[Call]:
        return [fence_call(s.moved, act, self.token, "frozen") for s in self.old.shards]


def claim_all(calls: list[Call]) -> Op[None]:
    """Raises Unavailable unless all of these claims succeed."""
    if not all((yield calls)):
        raise lost()


def renewing(renewals: list[Call], op: Op[T], clock: Callable[[], float]) -> Op[T]:
    """Run the operation. A batch first renews the fences, if that is RENEW_EVERY seconds ago, and then fails where a
    claim is lost. In between, each write checks its claim itself."""
    renew_at = -inf
    try:
        calls = next(op)
        while True:
            now = clock()
            due = renewals if now >= renew_at else []
            try:
                replies = yield [*due, *calls]
                if not all(replies[: len(due)]):
                    raise lost()
            except Exception as error:
                calls = op.throw(error)
            else:
                renew_at = now + RENEW_EVERY if due else renew_at
                calls = op.send(replies[len(due) :])
    except StopIteration as stop:
        result: T = stop.value
        return result
