"""An erasure that the client holds: see ``durability``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from presence_core.keyspace import Shard
from presence_core.models import stored_number
from presence_core.operations.context import Context, found_rows
from presence_core.operations.durability.held_changes import HeldOfUser
from presence_core.operations.sessions.read import read_call
from presence_core.scripts.calls import Call, Op, command, pairs
from presence_core.scripts.sessions import LIVE


@dataclass(slots=True, eq=False)
class HeldErasure(HeldOfUser):
    """A person who was erased."""

    upto: int  #: when, ms
    again: Callable[[], Op[object]]  #: erases them again where data from before ``upto`` is back
    is_lost: bool = field(default=False, init=False)  #: data is back; ``again`` removes it in steps, and may fail

    def reads(self, ctx: Context, s: Shard) -> list[Call]:
        """Their sessions; ends from before they were erased, and the times of what else they have."""
        ended, known, uid = s.ended_of(self.uid), s.known(self.uid), self.uid
        return [
            read_call(ctx, s, uid),
            command(ended, "ZCOUNT", ended, "-inf", self.upto),
            command(s.people, "ZSCORE", s.people, uid),
            command(s.blocks, "ZSCORE", s.blocks, uid),
            command(known, "HGETALL", known),
        ]

    def repairs(self, ctx: Context, s: Shard, replies: Sequence[Any], server: bytes) -> list[Call]:
        self.is_lost = self.is_lost or self._is_back(replies)
        return []

    def _is_back(self, replies: Sequence[Any]) -> bool:
        """Whether the person has anything from before they were erased."""
        sessions, ends, offline, blocked, devices = replies
        times = [float(time) for time in (offline, blocked) if time is not None]
        times += [number for _, time in pairs(devices) if (number := stored_number(time)) is not None]
        times += [found.row.login for found in found_rows(self.uid, sessions) if found.state == LIVE]
        return ends > 0 or any(time <= self.upto for time in times)

    def further_steps(self, server: bytes) -> Op[object] | None:
        return self.again() if self.is_lost else None
