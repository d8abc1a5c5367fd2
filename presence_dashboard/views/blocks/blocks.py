"""The Blocks page: block rules, and the people who are blocked. A Streamlit script."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

import streamlit as st

from presence_core import Block, BlockRule, Page
from presence_dashboard import access, texts
from presence_dashboard.actions import block_rules
from presence_dashboard.components import account, notifications, session_facts
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.pagination import load_rows, record_list, refresh_bar
from presence_dashboard.components.record_table import Column
from presence_dashboard.components.session_facts import person_link
from presence_dashboard.components.tickets import ticket_link
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.paged_list import PagedList, this_paged_list
from presence_dashboard.data.shared_reads import names_of
from presence_dashboard.data.store import Store, open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import author, cut, literal, minute, name, number
from presence_dashboard.roles import HIDDEN, Actor
from presence_dashboard.views.blocks import rule_form

access.stop_without_gate()

PEOPLE: Final = 20
"""Blocked people that the page shows; History has all."""


def page() -> None:
    store, actor = open_store(), access.current()
    st.header(texts.RULES_TITLE, anchor=False)
    st.caption(texts.RULES_EXPLAINED)
    paged: PagedList[BlockRule] = this_paged_list("block-rules")
    _rules(store, actor, paged)
    st.header(texts.BLOCKED_PEOPLE_TITLE, anchor=False)
    _people(store, actor, paged.generation)


# -- rules ------------------------------------------------------------------------------------------------------------


def _rules(store: Store, actor: Actor, paged: PagedList[BlockRule]) -> None:
    def read_page(limit: int, cursor: str | None) -> Page[BlockRule]:
        rules = store.presence.block_rules()  # at most 100, so there is one page
        return Page(rules, None, len(rules), True, len(rules), datetime.now(zone()))

    buttons, form = st.container(horizontal=True, vertical_alignment="center", gap="small"), st.container()
    rows = load_rows(paged, None, read_page, height=120)
    with buttons:
        if actor.may("block_rules"):
            rule_form.open_button()
        refresh_bar(paged)
    if actor.may("block_rules"):
        with form:
            rule_form.rule_form()
    if rows is None:
        return
    if not rows:
        with st.container(border=True, key="no-rules"):
            st.markdown(texts.RULES_EMPTY)
        return
    record_list(
        paged,
        rows,
        [
            (Column("match", texts.LABEL_BLOCKS), [literal(_match(rule, actor)) for rule in rows]),
            (Column("until", texts.LABEL_ENDS), [_end(rule) for rule in rows]),
            (Column("reason", texts.LABEL_REASON), [literal(rule.reason) for rule in rows]),
            (Column("ticket", texts.LABEL_TICKET, "link"), [ticket_link(rule.ticket) for rule in rows]),
            (Column("by", texts.LABEL_BY), [literal(rule.by) for rule in rows]),
            (Column("added", texts.LABEL_SINCE, "time"), [rule.at for rule in rows]),
        ],
        partial(_panel, actor=actor),
        key="block-rules",
        caption=texts.RULES_ALT,
        hint=texts.RULES_SELECT_HINT if actor.may("block_rules") else texts.RULES_SELECT_HINT_READER,
    )


def _end(block: BlockRule | Block) -> str:
    no_end = texts.RULE_NO_END if isinstance(block, BlockRule) else texts.BLOCK_NO_END
    return minute(block.until, zone()) if block.until else no_end


def _match(rule: BlockRule, actor: Actor) -> str:
    return HIDDEN if rule.network and "ip" in actor.masked else rule.words


def _panel(rule: BlockRule, actor: Actor) -> None:
    st.subheader(name(cut(_match(rule, actor), 140)), anchor=False)
    if not rule.everywhere:
        st.warning(texts.RULE_UNFINISHED)
    session_facts.show_facts(
        {
            texts.LABEL_ENDS: _end(rule),
            texts.LABEL_SINCE: rule.at,
            texts.LABEL_BY: rule.by,
            texts.LABEL_REASON: rule.reason,
            texts.LABEL_MESSAGE: rule.message,
            texts.LABEL_TICKET: rule.ticket,
            texts.LABEL_WHEN_ADDED: texts.rule_matched(texts.number_of_sessions(rule.sessions, number(rule.sessions))),
        },
    )
    if rule.country and actor.may("bulk"):
        st.page_link("views/sessions/sessions.py", label=texts.RULE_KICK, help=texts.RULE_KICK_HELP,
                     disabled=this_tab().away, query_params={"country": rule.country, "act": "kick"})  # fmt: skip
    if actor.may("block_rules"):
        with st.popover(texts.RULE_REMOVE, disabled=this_tab().away):
            _remove(rule)


def _remove(rule: BlockRule) -> None:
    st.caption(texts.RULE_REMOVE_EXPLAINED)
    must_sign_in_again = account.must_sign_in_again("rule-removal")
    with st.form(f"remove-{rule.id}", border=False, enter_to_submit=False):
        reason = st.text_input(texts.REASON, key=f"remove-reason-{rule.id}", max_chars=500)
        problem = st.container()
        pressed = st.form_submit_button(
            texts.RULE_REMOVE_CONFIRM,
            type="primary",
            disabled=this_tab().away or must_sign_in_again,
            on_click=notifications.check,
            args=("block_rules", block_rules.REMOVE),
        )
    if not pressed:
        return
    if not reason.strip():
        problem.warning(texts.REASON_MISSING)
        return
    match = name(cut(rule.words, 140))
    try:
        removed = block_rules.remove(open_store().presence, rule.id, reason.strip())
    except REFUSALS as error:
        problem.warning(texts.action_failed(plain(error)))
        return
    result = texts.rule_is_removed(match) if removed else texts.rule_was_removed(match)
    notifications.notify(Notification("done" if removed else "note", result))
    this_tab().acted += 1
    st.rerun()


# -- people -----------------------------------------------------------------------------------------------------------


def _people(store: Store, actor: Actor, generation: int) -> None:
    """The latest blocks. They are read again with the rules: ``generation`` counts the reads of those."""

    def read_page(limit: int, cursor: str | None) -> Page[Block]:
        return store.presence.blocks(limit=PEOPLE)

    paged: PagedList[Block] = this_paged_list("blocked-people")
    rows = load_rows(paged, generation, read_page, height=120)
    if rows is None:
        return
    if not rows:
        with st.container(border=True, key="no-blocks"):
            st.markdown(texts.BLOCKED_PEOPLE_EMPTY)
        return
    names = names_of((block.uid for block in rows), actor)
    if any(block.uid not in names for block in rows):
        st.caption(texts.BLOCKED_PEOPLE_UNNAMED)
    record_list(
        paged,
        rows,
        [
            (
                Column("person", texts.LABEL_PERSON, "link"),
                [person_link(block.uid, names.get(block.uid)) for block in rows],
            ),
            (Column("until", texts.LABEL_ENDS), [_end(block) for block in rows]),
            (Column("reason", texts.LABEL_REASON), [literal(block.reason) for block in rows]),
            (Column("ticket", texts.LABEL_TICKET, "link"), [ticket_link(block.ticket) for block in rows]),
            (Column("by", texts.LABEL_BY), [author(block.by, block.uid) for block in rows]),
            (Column("since", texts.BLOCKED_SINCE, "time"), [block.at for block in rows]),
        ],
        key="blocked-people",
        caption=texts.BLOCKED_PEOPLE_ALT,
    )
    st.page_link("views/history/history.py", label=texts.BLOCKED_PEOPLE_ALL, query_params={"view": "blocks"})


page()
