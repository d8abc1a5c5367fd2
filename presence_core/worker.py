"""The upkeep loop: sweeps, takes samples, and whatever else must be done by one process at a time."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, cast

from presence_core.client import AsyncPresence, Presence
from presence_core.errors import CorruptData, InvalidArgument, PresenceError
from presence_core.forked import renew_in_child
from presence_core.keyspace import Keyspace, Shard
from presence_core.models import SweepReport
from presence_core.operations import facets, history, jobs, leading, reindex, truncating
from presence_core.operations.running import Run

log = logging.getLogger("presence_core")

SLOT: Final = 10.0
"""Seconds of a sample."""

SWEEP_LIMIT: Final = 10_000
"""Sessions that one sweep ends at most before the lead is renewed and the clock looked at again: half a second."""

MEND_SECONDS: Final = 0.5
"""How long facets are counted anew, or stale entries taken out, at a time."""

KICK_SECONDS: Final = 1.0
"""How long bulk kicks are run at a time."""


@dataclass(slots=True)
class Duty:
    """Something that the worker that leads does, in turn with the others. An error of one does not stop the rest."""

    name: str  #: as it stands in the log, with "the" before it
    run: Callable[[], bool | None]  #: ends within a second or two; True: there is more to do, call again at once
    every: float = 0.0  #: seconds from one call to the next; 0: at every turn
    while_paused: bool = False  #: also while Redis's clock cannot be trusted: only for what ends no session
    due: float = 0.0


def _own_seconds() -> float:
    """A clock that nobody sets and that a laptop's sleep does not stop: what Redis's clock is compared with."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if hasattr(time, "clock_gettime"):
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # goes on during sleep on macOS, where time.monotonic() stops
    return time.monotonic()


def _wall_ms() -> int:
    return round(time.time() * 1000)


def _moved(where: str, off: float) -> str:
    way = "forward" if off > 0 else "back"
    return (
        f"Redis's clock{where} went {way} by {abs(off) / 1000:.0f} s and this machine's did not: sweeping waits until "
        "it is right again, or until somebody says that it is (presence worker --accept-clock)."
    )


class Worker:
    """Sweeps every ``interval`` seconds, and takes the samples that ``history`` is made of.

    ``with Worker(presence): …`` runs it in a daemon thread; ``run()`` runs it in the caller's until ``stop()``. Any
    number may run, in any process: one leads, the others wait, and take over 15 seconds or so after it was last heard
    of. Nothing depends on there being only one: each end and each sample is counted once however many are at work.

    A jump of Redis's clock by more than half of ``settings.idle_timeout`` pauses the sweeping, so that it ends nobody
    who only seems to be idle; ``paused`` says so. It goes on when the clock is right again, or when a worker is begun
    with ``accept_clock=True``: the clock as it is then counts as right, for whichever worker leads. While it is not
    paused, an answer that a session has expired is final: see ``validate``.
    """

    def __init__(self, presence: Presence, *, interval: float = 5.0, accept_clock: bool = False) -> None:
        if isinstance(cast(object, presence), AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence: a worker runs in a thread of its own")
        if isinstance(interval, bool) or not isinstance(interval, int | float) or not 0.05 <= interval <= 3600:
            raise InvalidArgument("interval", "must be 0.05 to 3600 seconds")
        if not isinstance(accept_clock, bool):
            raise InvalidArgument("accept_clock", "must be True or False")
        self._presence = presence
        self._interval = float(interval)
        self._start_anew()
        renew_in_child(self, Worker._start_anew)
        self.last_run: datetime | None = None  #: when a sweep last ended well
        self.last_report: SweepReport | None = None
        self.last_error: Exception | None = None  #: what the last turn failed of; None when it ended well
        self.leads: bool = False  #: whether this is the one that does the work
        self.paused: str = ""  #: why it does not sweep, a sentence; "" when it does

        self._duties: list[Duty] = [
            Duty("comparison of clocks", self._vouch, while_paused=True),
            Duty("sample", self._sample, while_paused=True),
            Duty("sweep", self._sweep, every=self._interval),
            Duty("hourly split", self._split, while_paused=True),
            Duty("bulk kick", self._kick),
            Duty("index repair", self._mend, every=10.0),
            Duty("truncation of addresses", self._truncate, every=600.0),
        ]
        self._failing: set[str] = set()
        self._keys: Keyspace | None = None  # where the sessions were when the following was begun
        self._cleaning: reindex.Cleaning | None = None
        self._truncation: truncating.Truncation | None = None
        self._filling: list[reindex.Filling] = []
        self._off: set[Shard] = set()  # shards whose facets did not add up when last looked at
        self._runs: dict[str, tuple[Run, float]] = {}  # bulk kicks by id, and when the next step of each is due

        self._tick = min(self._interval, SLOT)
        self._hold = max(3 * self._tick, 15.0)
        self._accept = accept_clock
        self._accepted: int | None = None
        self._jumped = self._apart = ""  # what is wrong with the clock that a beat shows; with that of some shard
        self._accept_shards = self._withdrawn = False
        self._epoch = _wall_ms() - _own_seconds() * 1000  # so that another machine can compare its clock with ours
        self._anchor: tuple[float, float, float] | None = None  # Redis's clock when it was in order, ours around it; ms
        self._report: dict[str, str | int] = {}
        self._good: dict[str, str | int] = {}  # Redis's and this machine's clock, for the one that leads next
        self._redis_now = 0
        self._heard = 0.0
        self._sampled = self._split_hour = -1

    def _start_anew(self) -> None:
        """Also in a forked child: the work goes on in its parent, which leads if it did."""
        self.leads = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._token = self._presence._ctx.new_id()
        self._who = f"{socket.gethostname()}:{os.getpid()}"

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until ``stop()``."""
        try:
            while not self._stop.wait(self._turn()):
                pass
        finally:
            self._leave()

    def start(self) -> None:
        """Run in a daemon thread."""
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._thread = threading.Thread(target=self.run, name="presence-upkeep", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the loop, and the thread if there is one; what is under way ends first, and another may lead at once."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _turn(self) -> float:
        """Everything that is due, if this is the leader; answers how many seconds there are until the next turn."""
        errors: list[Exception] = []
        again = False
        self._attempt("lead", self._beat, errors)
        self._follow()
        for duty in self._duties:
            if not self.leads or self._stop.is_set():
                break
            if (self.paused and not duty.while_paused) or time.monotonic() < duty.due:
                continue
            more = self._attempt(duty.name, duty.run, errors)
            duty.due = time.monotonic() + (0.0 if more else duty.every)
            again = again or more
            if not self._heard_lately():
                self._attempt("lead", self._beat, errors)
        if self.leads and self._report:
            self._attempt("lead", self._beat, errors)
        self.last_error = errors[0] if errors else None
        return 0.0 if again else self._pause()

    def _attempt(self, name: str, act: Callable[[], bool | None], errors: list[Exception]) -> bool:
        try:
            more = act()
        except PresenceError as error:
            if name not in self._failing:
                log.warning("the %s waits: %s", name, error)
            errors.append(error)
        except Exception as error:  # a mistake in one duty is no reason to leave the others undone
            if name not in self._failing:
                log.exception("the %s failed", name)
            errors.append(error)
        else:
            self._failing.discard(name)
            return bool(more)
        self._failing.add(name)
        if name == "lead":
            self.leads = False
        return False

    def _pause(self) -> float:
        """Until the next ten seconds have ended on Redis's clock, or until something is due."""
        if not self.leads:
            return self._tick
        now = time.monotonic()
        redis = self._redis_now / 1000 + now - self._heard
        waits = [duty.due - now for duty in self._duties if duty.every and (duty.while_paused or not self.paused)]
        return max(0.0, min(self._tick, SLOT - redis % SLOT + 0.05, *waits))

    def _follow(self) -> None:
        """Once everything has been moved to other shards, let go of what was begun on those that nobody uses now."""
        keys = self._presence._ctx.keyspace
        if keys is not self._keys:
            self._keys, self._cleaning, self._truncation = keys, None, None
            self._filling, self._off = [], set()

    # -- the lead, and the clock ---------------------------------------------------------------------------------------

    def _heard_lately(self) -> bool:
        return time.monotonic() - self._heard < self._hold / 3

    def _beat(self) -> None:
        sent = self._good | {"paused": self.paused} | self._report
        operation = leading.beat(
            self._presence._ctx, self._token, self._who, round(self._hold * 1000), self._accept, sent
        )
        before = _own_seconds() * 1000
        beat = self._presence._run(operation)
        after = _own_seconds() * 1000
        self._heard, self._redis_now = time.monotonic(), beat.now
        if self.leads != beat.leads:
            log.info("%s %s", self._who, "leads" if beat.leads else "leads no longer")
        self.leads = beat.leads
        for name, value in sent.items():
            if self._report.get(name) == value:
                del self._report[name]
        self._compare_clocks(beat, before, after)

    def _compare_clocks(self, beat: leading.Beat, before: float, after: float) -> None:
        """How far Redis's clock moved since it was last in order, beside how far ours did. A worker that has only
        begun asks what the leader before it left behind, and compares wall clocks."""
        wall = _wall_ms()
        accepted = self._accept or (self._anchor is not None and beat.accepted not in (None, self._accepted))
        self._accept, self._accepted = False, beat.accepted
        if accepted:
            self._anchor = None
        elif self._anchor is None and beat.redis is not None and beat.wall is not None:
            self._anchor = (beat.redis + wall - beat.wall, before, after)
        low = high = 0.0  # ours is read before and after: between the two, Redis's was
        if self._anchor is not None:
            redis, first, last = self._anchor
            low, high = beat.now - redis - (after - first), beat.now - redis - (before - last)
        limit = self._limit
        off = low if low > limit else high if high < -limit else 0.0
        if not off:
            self._anchor = (beat.now, before, after)
            self._good = {"redis": beat.now, "wall": wall}
            self._jumped = ""
        elif not self._jumped:
            self._jumped = _moved("", off)
        self._accept_shards = self.leads and (self._accept_shards or accepted)
        if not self.leads:
            self._apart, self._withdrawn = "", False
        self._say(self._jumped or self._apart)

    @property
    def _limit(self) -> int:
        """How far Redis's clock may move otherwise than ours, ms."""
        return self._presence.settings.idle_timeout * 500

    def _vouch(self) -> None:
        """Compare the clock of every shard, and write down where it is in order: until the next turns a look may end
        what is past its deadline there. While sweeping waits for the clock none is."""
        ctx, limit = self._presence._ctx, self._limit
        if self._jumped and self._withdrawn:
            return
        hold = 0 if self._jumped else min(round(self._hold * 1000), limit)
        before = round(self._epoch + _own_seconds() * 1000)
        offs = self._presence._run(leading.vouch(ctx, before, limit, hold, self._accept_shards))
        self._withdrawn = bool(self._jumped)
        if self._jumped:
            return
        self._accept_shards = False
        took = self._epoch + _own_seconds() * 1000 - before
        wrong = [(shard, off) for shard, off in offs.items() if off < -limit or off > limit + took]
        if not wrong:
            self._apart = ""
        elif not self._apart:
            shard, off = wrong[0]
            server = ctx.server_of(shard.tag)
            self._apart = _moved(f" at {server}" if server else "", off)
        self._say(self._apart)

    def _say(self, paused: str) -> None:
        if paused != self.paused:
            log.warning("%s", paused or "Redis's clock is in order again: sweeping goes on.")
            self._report["paused"] = self.paused = paused  # to be told at the end of this turn

    def _leave(self) -> None:
        try:
            self._presence._run(leading.leave(self._presence._ctx, self._token))
        except PresenceError:
            pass  # it runs out by itself
        self.leads = False

    # -- duties --------------------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        slot = self._redis_now // 10_000
        if slot != self._sampled and self._presence._run(history.sample(self._presence._ctx, self._redis_now)):
            self._sampled = slot

    def _sweep(self) -> bool:
        lag = self._presence._run(leading.lag(self._presence._ctx, self._redis_now))
        report = self._presence.sweep(limit=SWEEP_LIMIT)
        self.last_report = report
        self.last_run = datetime.now(UTC)
        self._report |= {"last_run": self._redis_now, "lag": lag}
        return report.has_more

    def _split(self) -> None:
        hour = self._redis_now // 3_600_000
        if hour != self._split_hour:
            ctx = self._presence._ctx
            apps, devices = (self._presence._run(facets.facets(ctx, field)) for field in ("app", "device"))
            self._presence._run(history.split(ctx, self._redis_now, apps, devices))
            self._split_hour = hour

    def _truncate(self) -> bool:
        """A part at a time of the addresses that are no longer to be kept whole; nothing unless settings say so."""
        if self._truncation is None:
            self._truncation = truncating.Truncation(self._presence._ctx)
        end = time.monotonic() + MEND_SECONDS
        while more := self._presence._run(self._truncation.step()):
            if time.monotonic() >= end or self._stop.is_set():
                break
        if not more:
            self._truncation = None
        return more

    def _mend(self) -> bool:
        """A part of the indexes at a time is held against the sessions; and facets are counted anew when twice in a
        row, ten seconds apart, they did not add up. Answers True while that goes on."""
        run, ctx = self._presence._run, self._presence._ctx
        if self._cleaning is None:
            self._cleaning = reindex.Cleaning(ctx, ctx.keys.shards)
        if not self._filling:
            off = set(run(reindex.drifted(ctx, ctx.keys.shards)))
            self._filling = [reindex.Filling(ctx, shard) for shard in off & self._off]
            self._off = off
        end = time.monotonic() + MEND_SECONDS
        while self._filling and time.monotonic() < end and not self._stop.is_set():
            run(self._filling[0].step())
            if self._filling[0].done:
                del self._filling[0]
        while run(self._cleaning.step()) and time.monotonic() < end and not self._stop.is_set():
            pass
        return bool(self._filling)

    def _kick(self) -> bool:
        """The bulk kicks that nobody else is at work on: the one that has waited longest first, at its own pace."""
        run = self._presence._run
        waiting = self._runs
        self._runs = {
            job_id: waiting.get(job_id) or (Run(self._presence._ctx, job_id), 0.0)
            for job_id in run(jobs.running(self._presence._ctx))
        }
        end = time.monotonic() + KICK_SECONDS
        errors: list[PresenceError] = []
        while self._runs and not self._stop.is_set():
            job_id, (job, due) = min(self._runs.items(), key=lambda item: item[1][1])
            if max(due, time.monotonic()) >= end:
                break
            self._stop.wait(max(0.0, due - time.monotonic()))
            begin = time.monotonic()
            try:
                wait = run(job.step())
                self._runs[job_id] = (job, begin + wait)
            except (CorruptData, InvalidArgument) as error:  # of this job: the others go on
                errors.append(error)
                job.over = True
            if job.over:
                del self._runs[job_id]
        if errors:
            raise errors[0]
        return any(job.holds for job, _ in self._runs.values())
