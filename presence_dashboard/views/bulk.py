"""The bulk kick: the dialog that counts, shows and asks, and the panel that follows the job.

The dialog acts on the question that it was opened with, frozen by the preview, and on no more sessions than it named.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import streamlit as st

from presence_core import InvalidArgument, Job, KickPreview, PresenceError, Session, SessionFilter
from presence_dashboard import access, bulk, texts
from presence_dashboard.actions import Why, is_unasked
from presence_dashboard.bulk import Steer
from presence_dashboard.format import clock, cut, name, number
from presence_dashboard.store import open_store
from presence_dashboard.tab import here, this_tab
from presence_dashboard.views import notices, phrases
from presence_dashboard.views.notices import Notice
from presence_dashboard.views.who import who
from presence_dashboard.wording import plain

SHOWN: Final = 5

AT_ONCE: Final = 0.8
"""Seconds for which the click waits for a small job to be done: its result is then told, not its beginning."""

_ASK: Final = "bulk-ask"
_NUMBER: Final = "bulk-number"
_MINE: Final = "bulk-mine"

Refusal = (PresenceError, access.Denied, access.SignedOut)


@dataclass(slots=True)
class Ask:
    """What the dialog asks about."""

    number: int  #: new for every dialog: nothing that was typed into the last one is left in its fields
    filter: SessionFilter
    words: str  #: the same for a reader, safe for Markdown
    ticked: tuple[str, ...]  #: refs that may be spared
    preview: KickPreview | None = None
    sample: tuple[Session, ...] = ()
    failure: str | None = None  #: why it could not be counted
    grown: bool = False  #: more matched than had been counted: it was counted again
    problem: str | None = None  #: why the last press of the button did nothing; a run after that one shows it, too


def ask(asked: SessionFilter, words: str, ticked: tuple[str, ...]) -> None:
    """Open the dialog about all that match."""
    if notices.refused("bulk", "kick_where"):
        return
    number: int = st.session_state.get(_NUMBER, 0) + 1
    st.session_state[_NUMBER] = number
    st.session_state[_ASK] = Ask(number, asked, words, ticked)


def _close() -> None:
    st.session_state.pop(_ASK, None)


def dialog() -> bool:
    """Show the dialog, if one is open."""
    known: Ask | None = st.session_state.get(_ASK)
    if known is not None and not access.current().may("bulk"):  # the role is lost: nobody is named any more
        _close()
        return False
    if known is not None:
        title = texts.BULK_TITLE_EVERYBODY if known.words == texts.BULK_EVERYBODY else texts.BULK_TITLE
        st.dialog(title, width="medium", on_dismiss=_close)(_body)(known)
    return known is not None


def _body(ask: Ask) -> None:
    if ask.preview is None and ask.failure is None:
        with st.spinner(texts.BULK_COUNTING):
            _count(ask)
    if ask.preview is None:
        st.error(texts.could_not(ask.failure or ""))
        st.button(texts.BULK_AGAIN, key="bulk-again", on_click=_count_anew, args=(ask,))
        return
    total, limit = ask.preview.total, access.current().bulk_limit
    if ask.grown:
        st.warning(texts.BULK_GROWN)
    if not total:
        st.info(texts.BULK_NONE)
    else:
        st.markdown(texts.bulk_found(total, number(total), clock(ask.preview.as_of), ask.words))
        who(ask.sample, texts.BULK_SAMPLE, of=total)
    if ask.ticked:
        st.checkbox(texts.bulk_spare(len(ask.ticked)), key=_spare_key(ask), on_change=_count_anew, args=(ask,))
    if limit is not None and total > limit:
        st.warning(texts.bulk_over(number(limit)))
    elif total:
        _form(ask, ask.preview)


def _confirmed() -> None:
    """Runs before the page is drawn, which may be another by now."""
    if notices.refused("bulk", "kick_where"):
        _close()


def _spare_key(ask: Ask) -> str:
    return f"bulk-spare-{ask.number}"


def _spared(ask: Ask) -> tuple[str, ...]:
    return ask.ticked if st.session_state.get(_spare_key(ask)) else ()


def _count_anew(ask: Ask) -> None:
    ask.preview = ask.failure = None
    ask.grown = False


def _count(ask: Ask) -> None:
    try:
        presence, spared = open_store().presence, _spared(ask)
        found = bulk.preview(presence, ask.filter, spared)
        some = presence.list_sessions(found.filter, limit=SHOWN + len(spared))
        ask.sample = tuple(session for session in some if session.ref not in spared)[:SHOWN]
        ask.preview, ask.failure = found, None
    except Refusal as error:
        ask.failure = plain(error)


def _form(ask: Ask, found: KickPreview) -> None:
    here, wanted = ask.number, number(found.total)
    fields = (f"bulk-phrase-{here}", f"bulk-reason-{here}", f"bulk-message-{here}")
    phrases.choice(fields[0], phrases.fill, *fields)
    # Outside of the form, so that a phrase knows what was typed.
    reason = st.text_area(texts.REASON, key=f"bulk-reason-{here}", max_chars=500, height=72, help=texts.REASON_HELP)
    message = st.text_area(texts.MESSAGE, key=f"bulk-message-{here}", max_chars=500, height=72, help=texts.MESSAGE_HELP)
    with st.form(f"bulk-{here}", border=False, enter_to_submit=False):
        with st.container(horizontal=True, gap="small"):
            ticket = st.text_input(texts.TICKET, key=f"bulk-ticket-{here}", max_chars=64)
            typed = st.text_input(texts.bulk_type(wanted), key=f"bulk-typed-{here}", autocomplete="off")
        problem = st.container()
        with st.container(horizontal=True, gap="small"):
            confirmed = st.form_submit_button(
                texts.confirm(found.total),
                key=f"bulk-confirm-{here}",
                type="primary",
                disabled=this_tab().away,
                on_click=_confirmed,
            )
            cancelled = st.form_submit_button(texts.CANCEL, key=f"bulk-cancel-{here}")
    if cancelled:
        _close()
        st.rerun()
    if confirmed:
        why = Why(reason.strip(), message.strip() or None, ticket.strip() or None)
        if not why.reason:
            ask.problem = texts.REASON_MISSING
        elif typed.strip().replace(",", "") != str(found.total):
            ask.problem = texts.bulk_mistyped(wanted)
        else:
            ask.problem = _start(ask, found, why)
    if ask.problem is not None:
        problem.error(ask.problem)


def _start(ask: Ask, found: KickPreview, why: Why) -> str:
    """Answers why it could not be started; otherwise the dialog closes."""
    store = open_store()
    try:
        job = bulk.start(store, found, _spared(ask), why)
    except InvalidArgument as error:
        if error.field != "expected":
            return texts.could_not(plain(error))
        _count_anew(ask)
        ask.grown = True
        st.rerun()
    except Refusal as error:
        return texts.could_not(plain(error))
    _mine()[job.id] = bulk.wait_for(job.id, AT_ONCE)
    if not _mine()[job.id]:
        notices.tell(Notice("note", texts.BULK_BEGUN))
    if is_unasked(store.presence):
        notices.tell(Notice("note", texts.UNASKED))
    bulk.jobs(store, anew=True)
    this_tab().acted += 1
    _close()
    st.rerun()


def _mine() -> dict[str, bool]:
    """Jobs that this tab began or steered: how they ended is shown until somebody has read it. The value: whether the
    list was read again since."""
    mine: dict[str, bool] = st.session_state.setdefault(_MINE, {})
    return mine


# -- The panel ---------------------------------------------------------------------------------------------------------


def panel(*, may_reread: bool) -> None:
    """Jobs that are under way, anybody's, and how those of this tab ended. Call it alone in a container of its own.

    Which ones is decided by the page, not by a tick: the table below does not move by itself. But once a job of this
    tab has ended, the list is read again. may_reread: unless somebody is at work with its rows.
    """
    reading = bulk.jobs(open_store())
    if reading.value is None:
        return
    shown = tuple(job.id for job in reading.value if not job.done or job.id in _mine())
    if shown:
        st.fragment(_panel, run_every=this_tab().tick)(shown, may_reread)


def _panel(shown: tuple[str, ...], may_reread: bool) -> None:
    if not access.may("bulk"):
        return
    jobs = bulk.jobs(open_store()).value
    if jobs is None:
        return
    known = {job.id: job for job in jobs}
    over = [job_id for job_id in shown if job_id in known and known[job_id].done and _mine().get(job_id) is False]
    if over:
        _mine().update(dict.fromkeys(over, True))
        if may_reread:
            this_tab().acted += 1
            st.rerun()
    for job_id in shown:
        if job_id in known:
            with st.container(
                horizontal=True, vertical_alignment="center", gap="small", border=True, key=f"job-{job_id}"
            ):
                _row(known[job_id], jobs.as_of)


def _row(job: Job, as_of: datetime) -> None:
    if job.done:
        st.markdown(result(job), width="stretch")
        if st.button(texts.BULK_JOB_HIDE, key=f"hide-{job.id}"):
            _mine().pop(job.id, None)
            st.rerun()
        return
    words = texts.bulk_job_progress(
        texts.BULK_JOB_STATES[job.state], number(job.kicked), number(job.total), here(as_of),
        name(cut(job.by, 40)), name(cut(job.reason, 60)),
    )  # fmt: skip
    st.progress(min(1.0, job.kicked / max(1, job.total)), text=words, width="stretch")
    other, label = ("resume", texts.BULK_JOB_RESUME) if job.state == "paused" else ("pause", texts.BULK_JOB_PAUSE)
    _button(job, "resume" if other == "resume" else "pause", label)
    _button(job, "cancel", texts.BULK_JOB_CANCEL)


def _button(job: Job, act: Steer, label: str) -> None:
    if not st.button(
        label,
        key=f"{act}-{job.id}",
        disabled=this_tab().away,
        on_click=notices.check,
        args=("bulk", bulk.what(act)),
    ):
        return
    store = open_store()
    try:
        bulk.steer(store, job, act)
    except Refusal as error:
        notices.tell(Notice("bad", texts.could_not(plain(error))))
    else:
        _mine()[job.id] = False
    bulk.jobs(store, anew=True)
    st.rerun()


def result(job: Job) -> str:
    """How a job ended, in words that are safe for Markdown."""
    left = max(0, job.total - job.kicked)
    parts = [texts.bulk_job_result(job.state, number(job.kicked), number(job.total))]
    if left:
        tell = texts.bulk_job_missed if job.state == "done" else texts.bulk_job_left
        parts.append(tell(left, number(left)))
    if job.error:
        parts.append(texts.BULK_JOB_FAILED)
    return " ".join(parts)
