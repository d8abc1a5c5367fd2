"""The work of a bulk kick, in bounded steps that anybody may take: who began it, a worker, or another after a crash.

Each step shows that this runner still holds the job, reads a page of those that match, ends them, and counts. Where the
page ended is written down with the next step, never before its sessions were ended: a crash repeats a page, and ends
nobody twice.

The hold spares two runners the same work; it cannot keep off one that was stopped and wakes later. That is what the
epoch does, a fencing token (Martin Kleppmann, "How to do distributed locking", 2016): a new holder first has every
shard refuse all earlier epochs, and only then counts what has been ended and looks at who matches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.models import JOB_FIELDS, Job, KickResult, Session, text
from presence_core.operations import listing
from presence_core.operations.context import Context
from presence_core.operations.ending import Why
from presence_core.operations.holding import MOST_HELD, answered, asking, hold_ends, login_ms
from presence_core.operations.jobs import KEEP, counted, decode, ended, fence, lost, stopped, total_of
from presence_core.scripts import CLOSE, TURN, Call, Op, command, run

HOLD: Final = 10_000
"""How long a runner that is not heard of keeps others from the job, ms."""

BATCH: Final = 200
"""Sessions of one step, at most."""

POLL: Final = 1.0
"""Seconds between looks at a job that another runner holds."""

MOST_ANSWERED: Final = 10_000
"""Sessions that a KickResult holds: what a million of them would take is no answer."""

FOREIGN: Final = (
    "Some of the sessions could not be ended, because other programs' keys stand in their way: run repair, and kick "
    "again."
)

_OWN: Final = ("epoch", "frozen", "cursor", "missed")


class Run:
    """One runner's work on a job, a step at a time."""

    def __init__(self, ctx: Context, job_id: object, token: str | None = None) -> None:
        self.id = check.session_id(job_id, "job_id")
        self.job: Job | None = None  #: as of the latest step
        self.kicked: list[Session] = []  #: what this runner ended, the first of them
        self.holds = False  #: whether it is this runner who has the job
        self.over = False  #: there is nothing to do any more: it has ended, or is paused
        self.confirmed = True if ctx.settings.confirm_replicas else None
        """Whether enough replicas have all that this runner ended; None: not asked."""
        self.is_full = False  #: it waits: no more can be held for the case of a failover
        self._ctx = ctx
        self._token = ctx.new_id() if token is None else token
        self._epoch = 0  # of which all shards know; 0: none, or a step broke off, and its kicks may be under way
        self._met = 0  # the highest that a shard was found to have
        self._exclude: frozenset[str] | None = None
        self._reached: dict[str, str | int] = {}  # what the step before did, still to be written down

    @property
    def result(self) -> KickResult:
        return KickResult(self.kicked, [], self.job.kicked if self.job else 0, self.job, self.confirmed)

    def step(self) -> Op[float]:
        """Do the next part of it; answers the seconds that the step after it has to wait from the begin of this one.

        Raises InvalidArgument where the job is not known, CorruptData where it cannot go on: it has failed then.
        """
        try:
            return (yield from self._step())
        except CorruptData as error:
            with contextlib.suppress(Unavailable, CorruptData):
                if self.holds:  # a batch of which some may still be under way: count behind it
                    [epoch] = yield [self._turn(0, ())]
                    yield from self._close("failed", str(error), epoch)
            with contextlib.suppress(Unavailable, CorruptData):  # and no worker is to stumble over it again and again
                running = self._ctx.keys.shards[0].running
                yield [command(running, "SREM", running, self.id)]
            self.over = True
            raise

    def _turn(self, epoch: int, told: Sequence[str | int]) -> Call:
        s = self._ctx.keys.shards[0]
        keys = (s.job(self.id), s.running)
        return run(TURN, keys, self._ctx.now, self.id, self._token, HOLD, KEEP, epoch, self._met, *told)

    def _step(self) -> Op[float]:
        ctx, key = self._ctx, self._ctx.keys.shards[0].job(self.id)
        told = [word for pair in self._reached.items() for word in pair]
        wanted = [] if self._exclude is not None else ["exclude"]
        before, self._epoch = self._epoch, 0
        epoch, row, *counts = yield [
            self._turn(before, told),
            command(key, "HMGET", key, *JOB_FIELDS, *_OWN, *wanted, lenient=True),
            *counted(ctx, self.id),
        ]
        self._reached = {}
        self.holds = epoch > 0
        if epoch < 0 and self.job is None:
            self.over = True
            raise InvalidArgument("job_id", "must be of a job that is known: this one is not, or no longer")
        job = decode(self.id, row, total_of(counts))
        if job is None:
            raise lost(ctx, self.id)
        self.job = job
        stopped_at, *own = row[len(JOB_FIELDS) :]
        if not self.holds:
            if job.state in ("paused", "cancelled"):  # what others have under way is counted as well, or stopped
                number = yield from stopped(ctx, self.id, total_of([stopped_at]), cancelled=job.state == "cancelled")
                self.job = dataclasses.replace(job, kicked=number)
            self.over = job.state != "running"
            return POLL
        if self._exclude is None:
            self._exclude = self._spared(own.pop())
        if epoch != before:
            found = [reply for reply in (yield fence(ctx, self.id, epoch)) if reply]
            self._met = max((fenced for fenced, _ in found), default=0)
            self.job = job = dataclasses.replace(job, kicked=total_of(count for _, count in found))
            if self._met > epoch:  # another has it by now
                self.holds = False
                return 0.0
        self.is_full = len(ctx.held) > MOST_HELD - BATCH
        if self.is_full:
            self._epoch = epoch
            return POLL
        wait = yield from self._batch(job, epoch, *own)
        if self.holds:
            self._epoch = epoch
        return wait

    def _spared(self, raw: bytes | None) -> frozenset[str]:
        try:
            refs = json.loads(raw or b"")
            if isinstance(refs, list) and all(isinstance(one, str) for one in refs):
                return frozenset(refs)
        except (ValueError, RecursionError):
            pass
        raise lost(self._ctx, self.id)  # rather nobody than somebody who was to be spared

    def _batch(
        self, job: Job, epoch: int, frozen: bytes | None, cursor: bytes | None, missed: bytes | None
    ) -> Op[float]:
        assert self._exclude is not None
        if not frozen or not frozen.isdigit():
            raise lost(self._ctx, self.id)
        size = BATCH if job.pace is None else max(1, min(BATCH, job.pace // 2))
        try:
            page = yield from listing.list_sessions(self._ctx, job.filter, size, text(cursor) if cursor else None)
        except InvalidArgument:  # no cursor of ours
            raise lost(self._ctx, self.id) from None
        # Idle is who was so when the job began: who has come to be idle since is no part of the question.
        hits = [one for one in page if one.ref not in self._exclude and job.filter.matches(one, int(frozen))]
        room = max(0, job.expected - job.kicked)
        if hits and not room:
            limit = f"More sessions match than the {job.expected:,} that were expected: those left were not touched."
            yield from self._close("failed", limit, epoch)
            return 0.0
        todo, reached = hits[:room], page.next_cursor
        was_missed = (yield from self._kick(job, epoch, todo)) or bool(missed)
        if not self.holds:
            return 0.0
        examined = job.examined + page.scanned
        if len(todo) < len(hits):
            reached = str(listing.Cursor((login_ms(todo[-1]), todo[-1].ref), job.filter.digest))
        assert self.job is not None
        self.job = dataclasses.replace(self.job, examined=examined)
        if reached is None:
            yield from self._close("failed" if was_missed else "done", FOREIGN if was_missed else "", epoch)
            return 0.0
        self._reached = {"cursor": reached, "examined": examined, "missed": "1" if was_missed else ""}
        return len(todo) / job.pace if job.pace else 0.0

    def _kick(self, job: Job, epoch: int, todo: list[Session]) -> Op[bool]:
        """End these; answers whether some could not be ended. What began anew under the same id is left alone."""
        ctx = self._ctx
        why = Why("kicked", "staff", job.by, job.reason, job.message or "", job.ticket or "", job=job.id, epoch=epoch)
        calls: list[Call] = []
        for one in todo:
            call = why.one(ctx, ctx.shard(one.uid), one.uid, one.session_id, login_ms(one))
            call.safe = True  # sent again, it ends and counts nobody twice, and nobody at all once another has the job
            call.lenient = True  # one user's damage keeps nobody else from being kicked
            calls.append(call)
        shards = [ctx.shard(one.uid) for one in todo]
        asked = asking(ctx, shards)
        replies: list[Any] = yield [*calls, *counted(ctx, job.id), *asked]
        told = answered(ctx, shards, replies)
        del replies[len(replies) - len(asked) :]
        done = [one for one, reply in zip(todo, replies, strict=False) if reply and reply[0]]
        self.confirmed = self.confirmed and told.sure
        hold_ends(ctx, told, why, done)
        self.kicked += done[: MOST_ANSWERED - len(self.kicked)]
        self.job = dataclasses.replace(job, kicked=total_of(replies[len(todo) :]))
        if 0 in replies[: len(todo)]:  # it has been paused, cancelled or taken over
            self.holds = False
        return any(reply is None for reply in replies[: len(todo)])

    def _close(self, state: str, error: str, epoch: int) -> Op[None]:
        """Write down that it is over, and how many it has ended, unless somebody has paused or taken it meanwhile."""
        ctx, s = self._ctx, self._ctx.keys.shards[0]
        key = s.job(self.id)
        number = total_of(reply[1] for reply in (yield fence(ctx, self.id, epoch)) if reply)
        examined = self.job.examined if self.job else 0
        said = f"job {self.id}: {ended(number)}{f', then it failed: {error}' if error else ''}"
        _, row, *counts = yield [
            run(CLOSE, (key, s.running, s.audit), ctx.now, ctx.audit_cap, self.id, self._token, state, error, said,
                KEEP, examined),
            command(key, "HMGET", key, *JOB_FIELDS, lenient=True),
            *counted(ctx, self.id),
        ]  # fmt: skip
        self.job = decode(self.id, row, total_of(counts)) or self.job
        self.over = self.job is not None and self.job.state != "running"
        self.holds = False
