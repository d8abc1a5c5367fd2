"""Scripts of the worker: sweep, repair, samples, health and the lead; each with the decoder of its reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from presence_core.models import stored_number
from presence_core.scripts.calls import by_two
from presence_core.scripts.script import Script, as_sent

REMOVE_OUTDATED: Final = Script("maintenance/remove_outdated", repeatable=True, reply=as_sent)
CONFIRM_CLOCK: Final = Script("maintenance/confirm_clock", repeatable=True, reply=as_sent)
"""Replies with the ms by which the shard's clock moved more than the worker's."""
REQUIRE_COMMANDS: Final = Script("maintenance/require_commands", repeatable=True, fenced=False, reply=as_sent)


class Settled(NamedTuple):
    """How many sessions or entries were put right."""

    ended: int
    repaired: int


def _decode_settled(reply: Sequence[int] | int) -> Settled:
    """Decode a reply of maintenance/settle_sessions.lua; or of ZREM or HDEL, which only repair."""
    return Settled(0, reply) if isinstance(reply, int) else Settled._make(reply)


SETTLE_SESSIONS: Final = Script(
    "maintenance/settle_sessions", repeatable=True, seldom=["hsetnx", "sadd"], shares=True, reply=_decode_settled
)


class DueSessions(NamedTuple):
    """Sessions that a sweep should settle."""

    now: int  #: ms
    refs: Sequence[bytes]


FIND_DUE: Final = Script("maintenance/find_due", repeatable=True, reply=DueSessions._make)


class Outdated(NamedTuple):
    """What has been kept for long enough."""

    uids: Sequence[bytes]  #: people who have been away for too long
    refs: Sequence[bytes]  #: ended sessions


FIND_OUTDATED: Final = Script("maintenance/find_outdated", repeatable=True, derives=True, reply=Outdated._make)


class ShardExamination(NamedTuple):
    """What health reads of a shard."""

    lengths: Sequence[int]  #: of the lists; -1: unknown
    refused: Sequence[bytes]  #: commands that the ACL user may not run
    could_ask: int  #: 1: the server answers which commands it permits
    keys: int  #: keys of the shard's slot; -1: unknown
    missing: Sequence[bytes]  #: commands that the server does not have
    may_write: int  #: 1: the ACL user may write the other key that was asked about


EXAMINE_SHARD: Final = Script("maintenance/examine_shard", repeatable=True, fenced=False, reply=ShardExamination._make)


class UserMeasures(NamedTuple):
    """The sessions of some users."""

    read: int  #: users that were read: the call may have ended before the last one
    users: list[tuple[str, int, int, int, int]]  #: uid, sessions, devices, networks, countries


def _decode_users(reply: Sequence[Any]) -> UserMeasures:
    read, flat = reply
    rows = zip(*[iter(flat)] * 5, strict=True)
    return UserMeasures(read, [(uid.decode("utf-8", "replace"), *counts) for uid, *counts in rows])


MEASURE_USERS: Final = Script("maintenance/measure_users", repeatable=True, derives=True, reply=_decode_users)


class ShardMeasures(NamedTuple):
    """What a sample reads of a shard."""

    oldest_deadline: bytes  #: ms; empty: there is no session
    users_of_hour: int
    users_of_day: int


MEASURE_SHARD: Final = Script("maintenance/measure_shard", repeatable=True, reply=ShardMeasures._make)


def _decode_sample(reply: int) -> bool:
    """Decode a reply of maintenance/write_sample.lua: whether the sample is there. Else it is too late, as a later
    slot has ended."""
    return reply >= 0


WRITE_SAMPLE: Final = Script("maintenance/write_sample", repeatable=True, fenced=False, reply=_decode_sample)


class Beat(NamedTuple):
    """A claim of the lead, in ms; None where nothing was stored."""

    leads: bool
    now: int  #: Redis's clock
    accepted: int | None  #: when an operator last accepted Redis's clock
    redis: int | None  #: Redis's clock when a leader last found it in order
    wall: int | None  #: that leader's wall clock at that time


def _decode_beat(reply: Sequence[Any]) -> Beat:
    leads, now, *stored = reply
    return Beat(bool(leads), int(now), *map(stored_number, stored))


CLAIM_LEAD: Final = Script("maintenance/claim_lead", repeatable=True, fenced=False, shares=True, reply=_decode_beat)


class WorkerStatusRead(NamedTuple):
    """What the worker that leads has reported."""

    now: int  #: ms
    fields: dict[bytes, bytes]  #: none: no worker has ever run

    def number(self, name: bytes) -> int | None:
        """The value of a field; None where it is missing or no number."""
        return stored_number(self.fields.get(name))

    def text(self, name: bytes) -> str:
        return self.fields.get(name, b"").decode("utf-8", "replace")


def _decode_worker_status(reply: Sequence[Any]) -> WorkerStatusRead:
    now, flat = reply
    return WorkerStatusRead(int(now), dict(by_two(flat)))


READ_WORKER_STATUS: Final = Script(
    "maintenance/read_worker_status", repeatable=True, fenced=False, reply=_decode_worker_status
)
