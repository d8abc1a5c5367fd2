"""The work of a bulk job, in bounded steps: by the process that began it, a worker, or another one after a crash.

Each step claims the job, reads a page of matches, ends them or changes their timeouts, and reads the counters.
The cursor of a page is written with the next step, never before that: a crash repeats a page, and ends or changes no
session twice.

The claim keeps two runners from doing the same work. It cannot stop a runner that was suspended and wakes later: the
epoch does that, a fencing token (Martin Kleppmann, "How to do distributed locking", 2016). A runner with a new
claim first makes every shard refuse all earlier epochs. Only then does it count ended sessions and read matches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from presence_core import validation as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import (
    JOB_FIELDS,
    AuditFact,
    Job,
    JobErrorCode,
    KickResult,
    Session,
    TimeoutsChange,
    login_ms,
    text,
    write_facts,
)
from presence_core.operations.bulk_kick.bulk_timeouts import NO_CHANGE, change_batch, is_due
from presence_core.operations.bulk_kick.jobs import (
    KEEP,
    KNOWN_NEEDS,
    corrupt_job,
    decode_job,
    ended_of,
    job_calls,
    kicked_calls,
    number_of_sessions,
    raise_fences,
    total_kicked,
)
from presence_core.operations.bulk_kick.kick_call import HeldKick, hold_kicks, kick_calls
from presence_core.operations.bulk_kick.states import UNKNOWN_JOB, stop_runners
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import (
    MAX_HELD,
    identity_of,
    read_confirmations,
    wait_calls,
)
from presence_core.operations.search import list_sessions
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.staff.timeouts import HeldTimeouts
from presence_core.scripts.bulk_kick import CLAIM_JOB, CLOSE_JOB, FOREIGN, KICKED, JobClaim, count
from presence_core.scripts.calls import Call, Op, call_of, command, server_info

CLAIM_MS: Final = 10_000
"""How long a claim keeps other runners off without a new step, ms."""

BATCH: Final = 200
"""Sessions that one step ends, at most."""

POLL: Final = 1.0
"""Seconds between looks at a job that another runner has claimed."""

MAX_ANSWERED: Final = 10_000
"""Sessions that a KickResult lists, at most: a million would not fit into memory."""

NEWER_JOB: Final = "names a job of a newer version: a worker of that version runs it"

SETTLE_SECONDS: Final = 10.0
"""How long a job that is at its end waits for what a failover has lost, at most."""

NOT_ENDED: Final = "Some sessions could not be ended: another program wrote to their keys. Run repair, then kick again."


class RunnerFields(NamedTuple):
    """The fields of a job that only its runner uses."""

    epoch: bytes | None
    frozen: bytes | None  #: when the filter was frozen, ms
    cursor: bytes | None  #: where the next page begins
    missed: bytes | None  #: "1": some session could not be ended


def _request(job: Job) -> EndRequest:
    return EndRequest("kicked", "staff", job.by, job.reason, job.message or "", job.ticket or "")


def _not_confirmed(job: Job, number: int, replicas: int) -> str:
    done, again = ("end", "ended them ends") if job.kind == "kick" else ("change", "changed them changes")
    by = f"{replicas} {'replica' if replicas == 1 else 'replicas'}"
    return (
        f"The {done} of {number_of_sessions(number)} is not confirmed by {by}: a failover came in between. The process "
        f"that {again} them again where they are live, as long as it runs."
    )


class Run:
    """One runner's work on a job, a step at a time."""

    def __init__(self, ctx: Context, job_id: object, token: str | None = None) -> None:
        self.id = check.session_id(job_id, "job_id")
        self.job: Job | None = None  #: as of the latest step
        self.kicked: list[Session] = []  #: sessions that this runner ended, the first MAX_ANSWERED
        self._counts = NO_CHANGE  # of timeouts, by this runner
        self.has_claim = False  #: whether this runner has claimed the job
        self.over = False  #: nothing is left to do: the job has ended, or is paused
        self.is_newer = False  #: the job needs a newer process; this one has changed nothing
        self.confirmed = True if ctx.settings.confirm_replicas else None
        """Whether enough replicas have every end of this runner; None: replicas are not asked."""
        self.is_full = False  #: this runner waits: the process holds as many changes for a failover as it may
        self._ctx = ctx
        self._token = ctx.new_id() if token is None else token
        self._epoch = 0  # all shards know it; 0: none yet, or a step broke off and its kicks may be under way
        self._highest_epoch = 0  # that a shard was found to have
        self._excluded: frozenset[str] | None = None
        self._servers: dict[Shard, bytes] = {}  # identities, when this runner first ended sessions there
        self._failed_over = False  # a shard has another server since
        self._unsettled = 0  # ends of this job that its servers may not have, as of the last look
        self._settle_until = 0.0
        self._unsaved: dict[str, str | int] = {}  # progress of the step before, written with the next claim

    @property
    def result(self) -> KickResult:
        if self.is_newer:
            raise InvalidArgument("job_id", NEWER_JOB, "newer_version")
        return KickResult(self.kicked, [], self.job.kicked if self.job else 0, self.job, self.confirmed)

    @property
    def change(self) -> TimeoutsChange:
        """What this runner has done to timeouts."""
        assert self.job is not None
        return dataclasses.replace(self._counts, filter=self.job.filter, total=self.job.total, job=self.job)

    def step(self) -> Op[float]:
        """Do the next part. Returns the seconds from the start of this step to the start of the next.

        Raises InvalidArgument where the job is not known, CorruptData where it cannot go on: the job has failed then.
        """
        try:
            return (yield from self._step())
        except CorruptData as error:
            yield from self._fail(str(error))
            raise

    def _step(self) -> Op[float]:
        epoch_before, self._epoch = self._epoch, 0
        claimed = yield from self._claim(epoch_before)
        if claimed is None:
            return POLL
        claim, job, progress = claimed
        epoch = claim.epoch
        if not self.has_claim:
            return (yield from self._follow(job, progress, claim.wait_ms / 1000))
        if epoch != epoch_before:
            kicked = yield from self._stop_earlier_runners(epoch)
            self.job = job = dataclasses.replace(job, kicked=kicked)
            if self._highest_epoch > epoch:  # another runner has claimed the job by now
                self.has_claim = False
                return 0.0
        self.is_full = len(self._ctx.held) > MAX_HELD - BATCH
        if self.is_full:
            self._epoch = epoch
            return POLL
        wait = yield from self._end_page(job, epoch, progress)
        if self.has_claim:
            self._epoch = epoch
        return wait

    def _claim(self, epoch_before: int) -> Op[tuple[JobClaim, Job, RunnerFields] | None]:
        """Claim the job or renew the claim, and read the job; None for one that needs a newer process."""
        unsaved = [word for pair in self._unsaved.items() for word in pair]
        more_fields = RunnerFields._fields if self._excluded is not None else (*RunnerFields._fields, "exclude")
        claim_reply, *job_replies = yield [
            self._claim_call(epoch_before, *unsaved),
            *job_calls(self._ctx, self.id, *more_fields),
        ]
        self._unsaved = {}
        claim = CLAIM_JOB.reply(claim_reply)
        self.has_claim = bool(claim.epoch)
        if claim.is_newer:
            self.is_newer = self.over = True
            return None
        if claim.is_unknown and self.job is None:
            self.over = True
            raise InvalidArgument("job_id", UNKNOWN_JOB, "unknown")
        job = decode_job(self.id, job_replies)
        if job is None:
            raise corrupt_job(self._ctx, self.id)
        self.job = job
        row, *_ = job_replies
        own = dict(zip(more_fields, row[len(JOB_FIELDS) :], strict=True))
        if self.has_claim and self._excluded is None:
            self._excluded = self._decode_excluded(own["exclude"])
        return claim, job, RunnerFields(*(own[field] for field in RunnerFields._fields))

    def _claim_call(self, epoch: int, *unsaved: str | int) -> Call:
        shard = self._ctx.keys.shards[0]
        keys = (shard.job(self.id), shard.running)
        return call_of(CLAIM_JOB, keys, *unsaved, given_now=self._ctx.now, id=self.id, token=self._token,
                       claim_ms=CLAIM_MS, keep=KEEP, given_epoch=epoch, highest_epoch=self._highest_epoch,
                       known=KNOWN_NEEDS)  # fmt: skip

    def _decode_excluded(self, raw: bytes | None) -> frozenset[str]:
        try:
            refs = json.loads(raw or b"")
            if isinstance(refs, list) and all(isinstance(ref, str) for ref in refs):
                return frozenset(refs)
        except (ValueError, RecursionError):
            pass
        raise corrupt_job(self._ctx, self.id)  # better to end no session than an excluded one

    def _follow(self, job: Job, progress: RunnerFields, until_begin: float) -> Op[float]:
        """Another runner has the job, or it does not run, or not yet: finish a stop that broke off, and wait."""
        if job.state in ("paused", "cancelled"):
            cancelled = job.state == "cancelled"
            kicked = yield from stop_runners(self._ctx, job, count(progress.epoch), cancelled=cancelled)
            self.job = dataclasses.replace(job, kicked=kicked)
        self.over = job.state != "running"
        return min(POLL, until_begin or POLL)

    def _stop_earlier_runners(self, epoch: int) -> Op[int]:
        """Raise the fence of every shard. Returns how many sessions the job has ended."""
        fences = yield from raise_fences(self._ctx, self.id, epoch)
        self._highest_epoch = max(fence.epoch for fence in fences)
        return sum(fence.kicked for fence in fences)

    def _end_page(self, job: Job, epoch: int, progress: RunnerFields) -> Op[float]:
        """Read the next page, end its matches, and note how far the job has come."""
        matches, next_cursor, scanned = yield from self._read_page(job, progress)
        chosen = self._within_limit(job, matches)
        if not chosen and (yield from self._must_settle()):
            return POLL
        if matches and not chosen:
            done = "ended" if job.kind == "kick" else "changed"
            limit = f"More sessions match than the {job.expected:,} that were expected: the rest was not {done}."
            yield from self._close("failed", limit, "more_match", epoch)
            return 0.0
        act = self._kick if job.kind == "kick" else self._change_timeouts
        missed = (yield from act(job, epoch, chosen)) or bool(progress.missed)
        if not self.has_claim:
            return 0.0
        examined = job.examined + scanned
        assert self.job is not None
        self.job = dataclasses.replace(self.job, examined=examined)
        if len(chosen) < len(matches):
            next_cursor = str(list_sessions.Cursor((login_ms(chosen[-1]), chosen[-1].ref), job.filter.lasting.digest))
        if next_cursor is None:
            if (yield from self._must_settle()):
                return POLL  # the last page is read again
            if missed:
                yield from self._close("failed", NOT_ENDED, "not_ended", epoch)
            else:
                yield from self._close("done", "", "", epoch)
            return 0.0
        self._unsaved = {"cursor": next_cursor, "examined": examined, "missed": "1" if missed else ""}
        return len(chosen) / job.pace if job.pace else 0.0

    def _read_page(self, job: Job, progress: RunnerFields) -> Op[tuple[list[Session], str | None, int]]:
        """The next page without excluded sessions, the cursor behind it, and the number of entries scanned."""
        assert self._excluded is not None
        if not progress.frozen or not progress.frozen.isdigit():
            raise corrupt_job(self._ctx, self.id)
        frozen_at = int(progress.frozen)
        size = BATCH if job.pace is None else max(1, min(BATCH, job.pace // 2))
        cursor = text(progress.cursor) if progress.cursor else None
        try:
            page = yield from list_sessions.list_sessions(self._ctx, job.filter.lasting, size, cursor)
        except InvalidArgument:  # the stored cursor is not ours
            raise corrupt_job(self._ctx, self.id) from None
        # Times count from the begin of the job: a session that became idle later does not match, and one that was seen
        # within some seconds matches, although that is longer ago by now.
        matches = [
            session
            for session in page
            if session.ref not in self._excluded and job.filter.matches(session, frozen_at)
        ]  # fmt: skip
        return matches, page.next_cursor, page.scanned

    def _within_limit(self, job: Job, matches: list[Session]) -> list[Session]:
        """The first of them, up to the number that the job may still end or change. Sessions that have the new timeouts
        already, such as those of a page that is repeated, do not count."""
        room, chosen = job.expected - job.kicked, []
        for session in matches:
            if job.kind == "kick" or is_due(self._ctx, job, session):
                if room < 1:
                    break
                room -= 1
            chosen.append(session)
        return chosen

    def _kick(self, job: Job, epoch: int, sessions: list[Session]) -> Op[bool]:
        """End these sessions. Returns whether some could not be ended. A newer session of the same id is left alone."""
        ctx = self._ctx
        parts, calls = kick_calls(ctx, sessions, _request(job), job.id, epoch)
        shards = [shard for shard, _ in parts]
        waits = wait_calls(ctx, shards)
        replies: list[Any] = yield [*calls, *kicked_calls(ctx, job.id), *waits]
        replicas = read_confirmations(ctx, shards, replies)
        counts = replies[len(calls) : len(replies) - len(waits)]
        kicked, has_missed = set(), False
        reached: list[Session] = []  # ended by this call, or before it: perhaps by an earlier try whose reply was lost
        for (_, some), reply in zip(parts, replies, strict=False):
            if reply == 0:  # the job was paused, cancelled or claimed by another runner
                self.has_claim = False
                continue
            results = [FOREIGN] * len(some) if reply is None else reply
            kicked |= {session.ref for session, result in zip(some, results, strict=True) if result == KICKED}
            reached += [session for session, result in zip(some, results, strict=True) if result != FOREIGN]
            has_missed = has_missed or FOREIGN in results
        ended = [session for session in sessions if session.ref in kicked]
        self.confirmed = self.confirmed and replicas.confirmed
        self._note_servers(replicas.servers)
        hold_kicks(ctx, replicas, _request(job), reached, job.id)
        self.kicked += ended[: MAX_ANSWERED - len(self.kicked)]
        self.job = dataclasses.replace(job, kicked=total_kicked(counts))
        return has_missed

    def _change_timeouts(self, job: Job, epoch: int, sessions: list[Session]) -> Op[bool]:
        """Change the timeouts of these sessions. Returns False: none is missed."""
        done = yield from change_batch(self._ctx, job, epoch, self._counts, sessions)
        self._counts = done.change
        self.has_claim = self.has_claim and not done.is_fenced
        self.confirmed = self.confirmed and done.replicas.confirmed
        self._note_servers(done.replicas.servers)
        self.job = dataclasses.replace(job, kicked=done.kicked)
        return False

    def _must_settle(self) -> Op[bool]:
        """Whether to wait until what a failover has lost is applied again. That counts for the job, too."""
        ctx = self._ctx
        kinds = HeldKick | HeldTimeouts
        own = [held for held in list(ctx.held.values()) if isinstance(held, kinds) and held.job_id == self.id]
        shards = list(dict.fromkeys(held.shard for held in own if held.shard is not None))
        infos = (yield [server_info(shard.tag) for shard in shards]) if shards else []
        servers = {shard: identity_of(info) for shard, info in zip(shards, infos, strict=True)}
        self._note_servers(servers)
        self._unsettled = sum(
            held.shard is None or not held.until or held.server != servers.get(held.shard) for held in own
        )
        if not (self._failed_over and self._unsettled):
            return False
        self._settle_until = self._settle_until or ctx.clock() + SETTLE_SECONDS
        return ctx.clock() < self._settle_until

    def _note_servers(self, servers: Mapping[Shard, bytes]) -> None:
        for shard, server in servers.items():
            if server and self._servers.setdefault(shard, server) != server:
                self._failed_over = True

    def _close(self, state: str, error: str, code: JobErrorCode | Literal[""], epoch: int) -> Op[None]:
        """Write that the job has ended and how many sessions it ended, unless staff or another runner were first."""
        ctx, shard = self._ctx, self._ctx.keys.shards[0]
        kicked = sum(fence.kicked for fence in (yield from raise_fences(ctx, self.id, epoch)))
        examined = self.job.examined if self.job else 0
        if self._failed_over and self._unsettled:
            self.confirmed = False
            assert self.job is not None
            unconfirmed = _not_confirmed(self.job, self._unsettled, ctx.settings.confirm_replicas)
            error, code = f"{error} {unconfirmed}".lstrip(), code or "unconfirmed"
        facts = [ended_of(kicked, self.id, self.job)]
        if error:
            facts.append(AuditFact("then_failed" if state == "failed" else "with_error", {"error": error}))
        keys = (shard.job(self.id), shard.running, shard.audit)
        _, *job_replies = yield [
            call_of(CLOSE_JOB, keys, given_now=ctx.now, audit_cap=ctx.audit_cap, id=self.id, token=self._token,
                    new_state=state, error_text=error, error_code=code, facts=write_facts(*facts), keep=KEEP,
                    examined=examined),
            *job_calls(ctx, self.id),
        ]  # fmt: skip
        self.job = decode_job(self.id, job_replies) or self.job
        self.over = self.job is not None and self.job.state != "running"
        self.has_claim = False

    def _fail(self, error: str) -> Op[None]:
        """The job is corrupt: close it where this runner has claimed it, and take it off the list of running jobs."""
        with contextlib.suppress(Unavailable, CorruptData):
            if self.has_claim:  # calls of a batch may be under way: a new epoch stops them before the count
                [reply] = yield [self._claim_call(0)]
                claim = CLAIM_JOB.reply(reply)
                if not claim.is_unknown:
                    yield from self._close("failed", error, "damaged", claim.epoch)
        with contextlib.suppress(Unavailable, CorruptData):
            running = self._ctx.keys.shards[0].running
            yield [command(running, "SREM", running, self.id)]
        self.over = True
