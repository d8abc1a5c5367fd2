"""All that is known of one row of the History page."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import streamlit as st

from presence_core import AuditEntry, Block, Ended, Job, PresenceError
from presence_dashboard import access, bulk, records, texts
from presence_dashboard.access import Actor
from presence_dashboard.bulk import Steer
from presence_dashboard.format import number
from presence_dashboard.roles import HIDDEN
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab
from presence_dashboard.views import cards, notices
from presence_dashboard.views.notices import Notice
from presence_dashboard.wording import plain


def show(row: Ended | Block | Job | AuditEntry, actor: Actor) -> None:
    """Everything, in a panel of its own."""
    with st.container(border=True, gap="xsmall", key="details"):
        if isinstance(row, Job):
            with st.container(key="job"):  # its own: a fragment that shares one may vanish when it meets a rerun
                st.fragment(_job, run_every=this_tab().tick)(row.id, actor)
            return
        facts = (
            _end(row, actor)
            if isinstance(row, Ended)
            else _block(row)
            if isinstance(row, Block)
            else _entry(row, actor)
        )
        _facts(facts)
        if row.uid:
            st.page_link("views/person.py", label=texts.HISTORY_OPEN_PERSON, query_params={"q": row.uid})


def _facts(facts: dict[str, str | datetime | None]) -> None:
    with st.container(gap="xxsmall"):
        cards.facts(facts)


def _end(one: Ended, actor: Actor) -> dict[str, str | datetime | None]:
    hides_name, hides_ip = "name" in actor.masked, "ip" in actor.masked
    return {
        texts.FACT_AT: one.at,
        texts.FACT_CAUSE: texts.HISTORY_CAUSES.get(one.cause, one.cause),
        texts.FACT_BY: one.by,
        texts.FACT_REASON: one.note,
        texts.FACT_MESSAGE: one.message,
        texts.FACT_TICKET: one.ticket,
        texts.FACT_REPLACED_BY: one.replaced_by,
        texts.FACT_NAME: HIDDEN if hides_name and one.name else one.name,
        texts.FACT_UID: one.uid,
        texts.FACT_ALIASES: None if hides_name else ", ".join(one.aliases) or None,
        texts.FACT_DEVICE: one.device,
        texts.FACT_CLIENT: cards.client(one),
        texts.FACT_APP: cards.app(one),
        texts.FACT_IP: cards.address(one, actor),
        texts.FACT_LAST_IP: None if hides_ip or one.last_ip == one.ip else one.last_ip,
        texts.FACT_LOGIN: one.login_at,
        texts.FACT_SEEN: one.last_seen,
        texts.FACT_AGENT: one.user_agent,
        texts.FACT_SESSION: one.session_id,
    }


def _block(one: Block) -> dict[str, str | datetime | None]:
    return {
        texts.FACT_UID: one.uid,
        texts.FACT_AT: one.at,
        texts.FACT_CHANGED: None if one.changed == one.at else one.changed,
        texts.FACT_UNTIL: one.until or texts.HISTORY_OPEN_END,
        texts.FACT_BY: one.by,
        texts.FACT_REASON: one.reason,
        texts.FACT_MESSAGE: one.message,
        texts.FACT_TICKET: one.ticket,
    }


def _entry(one: AuditEntry, actor: Actor) -> dict[str, str | datetime | None]:
    return {
        texts.FACT_AT: one.at,
        texts.FACT_ACTION: texts.act(one.action),
        texts.FACT_BY: one.by,
        texts.FACT_UID: one.uid,
        texts.FACT_SESSION: one.session_id,
        texts.FACT_OUTCOME: records.outcome(one, actor) or None,
        texts.FACT_REASON: records.reason(one, actor),
        texts.FACT_MESSAGE: one.message,
        texts.FACT_TICKET: one.ticket,
    }


# -- Bulk kicks --------------------------------------------------------------------------------------------------------


def share(job: Job) -> float:
    """How much of it is done, 0…1."""
    if job.state == "done":
        return 1.0
    return min(job.kicked / job.total, 1.0) if job.total else 0.0


def _job(job_id: str, actor: Actor) -> None:
    reading = open_store().shared(("job", job_id), lambda presence: presence.job(job_id))
    job = reading.value
    if job is None:
        st.caption(texts.JOB_GONE if reading.failure is None else texts.HISTORY_UNREAD)
        return
    state = texts.JOB_STATES.get(job.state, job.state)
    st.progress(share(job), texts.job_progress(state, number(job.kicked), number(job.total)))
    _facts(
        {
            texts.FACT_AT: job.created,
            texts.FACT_UPDATED: job.updated,
            texts.FACT_FINISHED: job.finished,
            texts.FACT_BY: job.by,
            texts.FACT_FILTER: _asked(job, actor),
            texts.FACT_REASON: job.reason,
            texts.FACT_MESSAGE: job.message,
            texts.FACT_TICKET: job.ticket,
            texts.FACT_ERROR: texts.BULK_JOB_FAILED if job.error else None,
        }
    )
    if access.may("bulk") and not job.done:
        _steering(job)


def _asked(job: Job, actor: Actor) -> str:
    """The filter as field and value; all fields that are not given are left out."""
    return "\n".join(f"{field} = {value}" for field, value in records.searched(job.filter, actor).items())


def _steering(job: Job) -> None:
    with st.container(horizontal=True, gap="small"):
        if job.state == "running":
            _button("pause", texts.JOB_PAUSE, job)
        else:
            _button("resume", texts.JOB_RESUME, job)
        with st.popover(texts.JOB_CANCEL, disabled=this_tab().away):
            st.caption(texts.JOB_CANCEL_EXPLAINED)
            _button("cancel", texts.JOB_CANCEL_CONFIRM, job)


def _button(act: Steer, label: str, job: Job) -> None:
    kind: Literal["primary", "secondary"] = "primary" if act == "cancel" else "secondary"
    if st.button(
        label,
        key=f"{act}-{job.id}",
        disabled=this_tab().away,
        type=kind,
        on_click=notices.check,
        args=("bulk", bulk.what(act)),
    ):
        notices.tell(_steer(act, job))
        this_tab().acted += 1
        st.rerun()


def _steer(act: Steer, job: Job) -> Notice:
    store = open_store()
    try:
        after = bulk.steer(store, job, act)
    except (PresenceError, access.Denied, access.SignedOut) as error:
        return Notice("bad", texts.could_not(plain(error)))
    store.shared(("job", job.id), lambda presence: presence.job(job.id), anew=True)
    return Notice("done", texts.job_steered(texts.JOB_STATES.get(after.state, after.state)))
