"""All details of a row of the History page."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import streamlit as st

from presence_core import AuditEntry, Block, Ended, FailedLogin, Job
from presence_dashboard import access, failure_facts, texts
from presence_dashboard.actions import bulk_kick
from presence_dashboard.actions.bulk_kick import JobCommand
from presence_dashboard.components import notifications, session_facts
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data import history_query
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.shared_reads import names_of
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import author, minute, number, outcome
from presence_dashboard.roles import HIDDEN, Actor


def show(row: Ended | Block | Job | FailedLogin | AuditEntry, actor: Actor) -> None:
    if isinstance(row, Job):
        with st.container(key="job"):  # a fragment in a shared container may vanish during a rerun
            st.fragment(_job, run_every=this_tab().tick)(row.id, actor)
        return
    facts = (
        _end(row, actor)
        if isinstance(row, Ended)
        else _block(row, actor)
        if isinstance(row, Block)
        else failure_facts.facts(row, actor, names_of([row.uid], actor).get(row.uid) if row.uid else None)
        if isinstance(row, FailedLogin)
        else _entry(row, actor)
    )
    session_facts.show_facts(facts, session_facts.their_zone(row, actor) if isinstance(row, Ended) else None)
    if row.uid:
        st.page_link("views/person/person.py", label=texts.HISTORY_OPEN_PERSON, query_params={"q": row.uid})


def _end(session: Ended, actor: Actor) -> dict[str, str | datetime | None]:
    hides_name, hides_ip = "name" in actor.masked, "ip" in actor.masked
    return {
        texts.LABEL_WHEN: session.at,
        texts.FACT_CAUSE: texts.HISTORY_CAUSES.get(session.cause, session.cause),
        texts.LABEL_BY: session.by,
        texts.LABEL_REASON: session.note,
        texts.LABEL_MESSAGE: session.message,
        texts.LABEL_TICKET: session.ticket,
        texts.FACT_REPLACED_BY: session.replaced_by,
        texts.LABEL_NAME: HIDDEN if hides_name and session.name else session.name,
        texts.LABEL_UID: session.uid,
        texts.LABEL_ALIASES: None if hides_name else ", ".join(session.aliases) or None,
        texts.LABEL_DEVICE: session_facts.device_name(session, actor),
        texts.LABEL_BROWSER: session_facts.client(session),
        texts.LABEL_APP: session_facts.app(session),
        texts.LABEL_IP: session_facts.address(session, actor),
        texts.LABEL_LAST_IP: None if hides_ip or session.last_ip == session.ip else session.last_ip,
        texts.LABEL_PLACE: session_facts.place(session, actor),
        texts.LABEL_NETWORK: session_facts.provider(session, actor),
        texts.LABEL_TIME_ZONE: session_facts.zone_words(session_facts.their_zone(session, actor)),
        texts.LABEL_FLAGS: ", ".join(session_facts.flags(session)) or None,
        texts.LABEL_LOGIN: session.login_at,
        texts.LABEL_LOGIN_BEFORE: session_facts.login_before(session, actor),
        texts.LABEL_MOVED: session_facts.move(session, actor),
        texts.LABEL_LAST_ACTIVE: session.last_seen,
        texts.METHOD_FILTER: session_facts.authentication(session),
        texts.LABEL_SIGNED_IN_AT: (session.idp or {}).get("iss"),
        texts.FACT_AGENT: None if hides_name else session.user_agent,  # some apps put the device's name in it
        texts.FACT_SESSION: session.session_id,
        **session_facts.attributes(session, actor, open_store().presence.settings.facets),
    }


def _block(block: Block, actor: Actor) -> dict[str, str | datetime | None]:
    return {
        texts.LABEL_NAME: names_of([block.uid], actor).get(block.uid),
        texts.LABEL_UID: block.uid,
        texts.LABEL_WHEN: block.at,
        texts.FACT_CHANGED: None if block.changed == block.at else block.changed,
        texts.FACT_UNTIL: minute(block.until, zone()) if block.until else texts.HISTORY_OPEN_END,
        texts.LABEL_BY: author(block.by, block.uid, str),
        texts.LABEL_REASON: block.reason,
        texts.LABEL_MESSAGE: block.message,
        texts.LABEL_TICKET: block.ticket,
    }


def _entry(entry: AuditEntry, actor: Actor) -> dict[str, str | datetime | None]:
    return {
        texts.LABEL_WHEN: entry.at,
        texts.LABEL_ACTION: texts.act(entry.action),
        texts.LABEL_BY: author(entry.by or "", entry.uid, str) or None,
        texts.LABEL_NAME: names_of([entry.uid], actor).get(entry.uid) if entry.uid else None,
        texts.LABEL_UID: entry.uid,
        texts.FACT_SESSION: entry.session_id,
        texts.LABEL_OUTCOME: outcome(history_query.masked(entry, actor), zone()) or None,
        texts.LABEL_REASON: history_query.reason(entry, actor),
        texts.LABEL_MESSAGE: entry.message,
        texts.LABEL_TICKET: entry.ticket,
    }


# -- Bulk kicks --------------------------------------------------------------------------------------------------------


def share(job: Job) -> float:
    """The finished share of a job, 0…1."""
    if job.state == "done":
        return 1.0
    return min(job.kicked / job.total, 1.0) if job.total else 0.0


def _job(job_id: str, actor: Actor) -> None:
    reading = open_store().shared(("job", job_id), lambda presence: presence.job(job_id))
    job = reading.value
    if job is None:
        st.caption(texts.JOB_GONE if reading.failure is None else texts.LIST_UNREAD)
        return
    state = texts.JOB_STATES.get(job.state, job.state)
    st.progress(share(job), texts.job_progress(state, number(job.kicked), number(job.total)))
    session_facts.show_facts(
        {
            texts.LABEL_WHEN: job.created,
            texts.FACT_UPDATED: job.updated,
            texts.FACT_FINISHED: job.finished,
            texts.LABEL_BY: job.by,
            texts.FACT_FILTER: history_query.filter_in_words(job.filter, job.created, actor, zone())
            or texts.BULK_EVERYONE,
            texts.LABEL_REASON: job.reason,
            texts.LABEL_MESSAGE: job.message,
            texts.LABEL_TICKET: job.ticket,
            texts.FACT_ERROR: texts.JOB_ERRORS[job.error_code or "damaged"] if job.error else None,
        }
    )
    if access.may("bulk") and not job.done:
        _controls(job)


def _controls(job: Job) -> None:
    with st.container(horizontal=True, gap="small"):
        if job.state == "running":
            _button("pause", texts.PAUSE, job)
        else:
            _button("resume", texts.RESUME, job)
        with st.popover(texts.JOB_CANCEL, disabled=this_tab().away):
            st.caption(texts.JOB_CANCEL_EXPLAINED)
            _button("cancel", texts.JOB_CANCEL_CONFIRM, job)


def _button(command: JobCommand, label: str, job: Job) -> None:
    kind: Literal["primary", "secondary"] = "primary" if command == "cancel" else "secondary"
    if notifications.checked_button(
        label, f"{command}-{job.id}", "bulk", bulk_kick.audit_name(command, job.kind), type=kind
    ):
        notifications.notify(_control(command, job))
        this_tab().acted += 1
        st.rerun()


def _control(command: JobCommand, job: Job) -> Notification:
    store = open_store()
    try:
        after = bulk_kick.control_job(store, job, command)
    except REFUSALS as error:
        return notifications.failed(plain(error))
    store.shared(("job", job.id), lambda presence: presence.job(job.id), fresh=True)
    return Notification("done", texts.job_steered(texts.JOB_STATES.get(after.state, after.state)))
