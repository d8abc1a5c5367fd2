"""Repair and reindex: one at a time in this process, in a thread of its own, so that it outlives the tab that began it.

Stopped half-way, by a restart of the dashboard say, either is simply begun again.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Literal

import streamlit as st

from presence_core import Presence, PresenceError, SweepReport
from presence_dashboard import access, texts

Act = Literal["repair", "reindex"]


@dataclass(frozen=True, slots=True)
class Work:
    """What is being done, or was done last."""

    act: Act
    by: str
    begun: float  #: by this process's own clock, as the next
    ended: float | None = None
    done: int = 0  #: sessions visited
    total: int = 0  #: of so many; 0 where that is not told
    report: SweepReport | None = None  #: what came of it
    failure: str | None = None  #: why it ended early
    unaudited: bool = False  #: it was done, but could not be written down

    @property
    def runs(self) -> bool:
        return self.ended is None


class Bench:
    """Where the work lies."""

    def __init__(self) -> None:
        self._work: Work | None = None
        self._guard = threading.Lock()

    @property
    def work(self) -> Work | None:
        return self._work

    def begin(self, presence: Presence, act: Act) -> bool:
        """False: something is being done already. Raises Denied, SignedOut and Unavailable, as access.require."""
        actor = access.require("repair", what=act)
        with self._guard:
            if self._work is not None and self._work.runs:
                return False
            self._work = Work(act, actor.name, time.monotonic())
        threading.Thread(target=self._run, args=(presence,), name=act, daemon=True).start()
        return True

    def _run(self, presence: Presence) -> None:
        work = self._work
        assert work is not None
        try:
            report = presence.repair() if work.act == "repair" else presence.reindex(on_progress=self._progress)
            self._change(report=report, unaudited=not _audited(presence, work, report))
        except PresenceError as error:
            self._change(failure=str(error))
        finally:
            self._change(ended=time.monotonic())

    def _progress(self, done: int, total: int) -> None:
        self._change(done=done, total=total)

    def _change(self, **changes: object) -> None:
        if self._work is not None:
            self._work = replace(self._work, **changes)  # type: ignore[arg-type]  # one thread writes at a time


def _audited(presence: Presence, work: Work, report: SweepReport) -> bool:
    try:
        presence.audit_note(by=work.by, what=work.act, outcome=texts.health_put_right(report.repaired, report.expired))
    except PresenceError:
        return False
    return True


@st.cache_resource(show_spinner=False)
def open_bench() -> Bench:
    """That of this process."""
    return Bench()
