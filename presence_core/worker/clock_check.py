"""Whether Redis's clock can be trusted: did it move as far as the clock of this machine did?

A clock that jumps forward would end sessions that only seem to be idle. So the worker compares the clocks at every
beat, and the clock of every shard in turn. While they differ by more than the limit, it does not sweep.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from presence_core.client.internal import Internal
from presence_core.operations.maintenance import leader
from presence_core.scripts.maintenance import Beat


def own_seconds() -> float:
    """A clock that cannot be set and does not stop while a laptop sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if hasattr(time, "clock_gettime"):
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # on macOS it counts sleep; time.monotonic() does not
    return time.monotonic()


def wall_ms() -> int:
    return round(time.time() * 1000)


class _Anchor(NamedTuple):
    """Redis's clock when it was last right, and our own clock before and after that reading; ms."""

    redis: float
    before: float
    after: float


class ClockCheck:
    """What one worker knows about Redis's clock. ``limit``: how far it may move differently from ours, ms."""

    def __init__(self, limit: int, *, accept: bool) -> None:
        self.accept = accept  #: the clock as it is now counts as right; the next beat passes this on
        self.last_right: dict[str, str | int] = {}  #: Redis's and this machine's wall clock, for the next leader
        self._limit = limit
        self._accepted: int | None = None
        self._anchor: _Anchor | None = None
        self._jumped = ""  # what is wrong with the clock that a beat reads
        self._shard_jumped = ""  # … and with that of some shard
        self._accept_shards = False
        self._is_withdrawn = False  # no shard's clock counts as checked any more
        self._epoch = wall_ms() - own_seconds() * 1000  # lets another machine compare its clock with ours

    @property
    def problem(self) -> str:
        """Why the clock cannot be trusted, as a sentence; "" if it can."""
        return self._jumped or self._shard_jumped

    def compare(self, beat: Beat, before: float, after: float) -> None:
        """Compare the time in a reply with our own clock before and after it, ms."""
        accepted = self.accept or (self._anchor is not None and beat.accepted not in (None, self._accepted))
        self.accept, self._accepted = False, beat.accepted
        if accepted:
            self._anchor = None
        elif self._anchor is None and beat.redis is not None and beat.wall is not None:
            # A new worker has no reading of its own: it takes the last leader's, and compares wall clocks.
            self._anchor = _Anchor(beat.redis + wall_ms() - beat.wall, before, after)
        jump = self._jump(beat.now, before, after)
        if not jump:
            self._anchor = _Anchor(beat.now, before, after)
            self.last_right = {"redis": beat.now, "wall": wall_ms()}
            self._jumped = ""
        elif not self._jumped:
            self._jumped = _sentence("", jump)
        self._accept_shards = beat.leads and (self._accept_shards or accepted)
        if not beat.leads:
            self._shard_jumped, self._is_withdrawn = "", False

    def _jump(self, now: float, before: float, after: float) -> float:
        """How many ms Redis's clock moved more than ours; 0 within the limit."""
        if self._anchor is None:
            return 0.0
        redis, first, last = self._anchor
        # Redis read its clock at some time between our two readings: this is the least and the most that it moved.
        least, most = now - redis - (after - first), now - redis - (before - last)
        return least if least > self._limit else most if most < -self._limit else 0.0

    def check_shards(self, internal: Internal, most_ms: int) -> None:
        """Compare the clock of every shard. A shard whose clock is right gets a mark for ``most_ms`` ms at most.
        With the mark, reads may end sessions that are past their deadline. After a jump no shard gets it."""
        if self._jumped and self._is_withdrawn:
            return
        most_ms = 0 if self._jumped else min(most_ms, self._limit)
        before = round(self._epoch + own_seconds() * 1000)
        jumps = internal.run(leader.vouch(internal.context, before, self._limit, most_ms, self._accept_shards))
        self._is_withdrawn = bool(self._jumped)
        if self._jumped:
            return
        self._accept_shards = False
        took = self._epoch + own_seconds() * 1000 - before
        wrong = [(shard, jump) for shard, jump in jumps.items() if jump < -self._limit or jump > self._limit + took]
        if not wrong:
            self._shard_jumped = ""
        elif not self._shard_jumped:
            shard, jump = wrong[0]
            server = internal.context.server_of(shard.tag)
            self._shard_jumped = _sentence(f" at {server}" if server else "", jump)


def _sentence(where: str, jump: float) -> str:
    direction = "forward" if jump > 0 else "back"
    return (
        f"Redis's clock{where} went {direction} by {abs(jump) / 1000:.0f} s and this machine's did not: sweeping is "
        "paused until it is right again, or until it is accepted as it is (presence worker --accept-clock)."
    )
