"""Repair, and the rebuild of indexes: one task at a time, in a thread of this process, which outlives the tab.

If a restart of the dashboard stops a task, start it again: both can be repeated.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Literal

import streamlit as st

from presence_core import AuditFact, Presence, PresenceError, SweepReport
from presence_dashboard import access

MaintenanceKind = Literal["repair", "reindex"]


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """The running task, or the last one."""

    kind: MaintenanceKind
    by: str
    started: float  #: by the monotonic clock, as ``ended``
    ended: float | None = None
    done: int = 0  #: sessions checked
    total: int = 0  #: 0 if not known
    report: SweepReport | None = None  #: the result
    failure: str | None = None  #: why it failed
    not_audited: bool = False  #: it succeeded, but could not be audited

    @property
    def is_running(self) -> bool:
        return self.ended is None


class MaintenanceRunner:
    def __init__(self) -> None:
        self._task: MaintenanceRun | None = None
        self._guard = threading.Lock()

    @property
    def task(self) -> MaintenanceRun | None:
        return self._task

    def start(self, presence: Presence, kind: MaintenanceKind) -> bool:
        """Start a task. False if another one is running. Raises as ``access.require``."""
        actor = access.require("repair", action=kind)
        with self._guard:
            if self._task is not None and self._task.is_running:
                return False
            self._task = MaintenanceRun(kind, actor.name, time.monotonic())
        threading.Thread(target=self._run, args=(presence,), name=kind, daemon=True).start()
        return True

    def _run(self, presence: Presence) -> None:
        task = self._task
        assert task is not None
        try:
            report = presence.repair() if task.kind == "repair" else presence.reindex(on_progress=self._progress)
            self._change(report=report, not_audited=not _audited(presence, task, report))
        except PresenceError as error:
            self._change(failure=str(error))
        finally:
            self._change(ended=time.monotonic())

    def _progress(self, done: int, total: int) -> None:
        self._change(done=done, total=total)

    def _change(self, **changes: object) -> None:
        if self._task is not None:
            self._task = replace(self._task, **changes)  # type: ignore[arg-type]  # one thread writes at a time


def _audited(presence: Presence, task: MaintenanceRun, report: SweepReport) -> bool:
    facts = [AuditFact("repaired", {"count": report.repaired}), AuditFact("found_expired", {"count": report.expired})]
    try:
        presence.audit_note(by=task.by, what=task.kind, facts=facts)
    except PresenceError:
        return False
    return True


@st.cache_resource(show_spinner=False)
def maintenance_runner() -> MaintenanceRunner:
    return MaintenanceRunner()
