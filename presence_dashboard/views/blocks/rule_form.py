"""The form that adds a block rule: what it matches, who that is now, and why. Nothing is added without a preview."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import streamlit as st

from presence_core import BlockRulePreview, InvalidArgument
from presence_dashboard import access, texts
from presence_dashboard.actions import approvals, block_rules
from presence_dashboard.actions.approvals import RulePart
from presence_dashboard.actions.block_rules import RuleConditions, RuleDetails
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.components import account, notifications
from presence_dashboard.components.block_choice import RULE_ENDS, entered_rule, rule_fields
from presence_dashboard.components.buttons import live_button
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.tickets import ticket_box
from presence_dashboard.data.browser_tab import local_time, this_tab, zone
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import cut, literal, minute, name, number
from presence_dashboard.language import gettext

_FORM: Final = "rule-form"


@dataclass(slots=True)
class _Form:
    """The form of this tab. ``number`` changes with each rule, so that the fields of the next one are empty."""

    number: int = 0
    match: RuleConditions | None = None  #: of the preview
    preview: BlockRulePreview | None = None
    problem: str | None = None
    is_open: bool = False


def open_button() -> None:
    form = _this_form()
    if not form.is_open:
        live_button(texts.RULE_ADD, "add-rule", _open, form, type="primary")


def rule_form() -> None:
    form = _this_form()
    if not form.is_open:
        return
    with st.container(border=True, key="rule-form-box", width=760):
        must_sign_in_again = account.must_sign_in_again("rule")
        rule_fields(str(form.number))
        match = entered_rule(str(form.number))
        if form.match != match:
            form.preview = form.problem = None
        with st.container(horizontal=True, gap="small"):
            live_button(texts.RULE_PREVIEW, "preview-rule", _preview, form)
            st.button(texts.CANCEL, key="cancel-rule", on_click=_reset, args=(form,))
        if form.problem is not None:
            st.warning(form.problem)
        if form.preview is None:
            st.caption(texts.RULE_PREVIEW_FIRST)
        else:
            _confirm(form, match, form.preview, must_sign_in_again=must_sign_in_again)


def _this_form() -> _Form:
    if _FORM not in st.session_state:
        st.session_state[_FORM] = _Form()
    form: _Form = st.session_state[_FORM]
    return form


def _open(form: _Form) -> None:
    if not notifications.refused("block_rules", block_rules.ADD):
        form.is_open = True


def _reset(form: _Form) -> None:
    form.number += 1
    form.match = form.preview = form.problem = None
    form.is_open = False


def _preview(form: _Form) -> None:
    match = entered_rule(str(form.number))
    form.match, form.preview, form.problem = match, None, None
    try:
        form.preview = block_rules.preview(open_store().presence, match)
    except REFUSALS as error:
        form.problem = plain(error)


def _confirm(form: _Form, match: RuleConditions, preview: BlockRulePreview, *, must_sign_in_again: bool) -> None:
    key, shown = form.number, _words(preview)
    asks = preview.is_wide and access.current().four_eyes is not None
    st.markdown(
        texts.rule_preview(
            shown,
            texts.rule_people(preview.people, number(preview.people)),
            texts.number_of_sessions(preview.sessions, number(preview.sessions)),
            local_time(preview.as_of),
            is_exact=preview.people_is_exact,
            is_none=not preview.sessions,
        )
    )
    if preview.is_wide:
        st.warning(texts.RULE_WIDE if preview.network else texts.RULE_WIDE_COUNTRY)
    if asks:
        st.info(texts.ASK_WIDE)
    with st.form(f"rule-{key}", border=False, enter_to_submit=False):
        reason = st.text_area(texts.REASON, key=f"rule-reason-{key}", max_chars=500, height=72)
        message = st.text_area(
            texts.MESSAGE, key=f"rule-message-{key}", max_chars=500, height=72, help=texts.RULE_MESSAGE_HELP
        )
        with st.container(horizontal=True, gap="small"):
            end = st.selectbox(texts.RULE_FOR, list(RULE_ENDS), index=1, format_func=gettext, key=f"rule-end-{key}")
            ticket = ticket_box(f"rule-ticket-{key}", in_form=True)
        typed = None
        if preview.is_wide and not asks:
            typed = st.text_input(texts.rule_type_wide(preview.words), key=f"rule-typed-{key}", max_chars=64).strip()
        problem = st.container()
        pressed = st.form_submit_button(
            texts.ASK_ADMIN if asks else texts.RULE_CONFIRM,
            type="primary",
            disabled=this_tab().away or (must_sign_in_again and not asks),
            on_click=notifications.check,
            args=("block_rules", approvals.ASK if asks else block_rules.ADD),
        )
    if not pressed:
        return
    if not reason.strip():
        problem.warning(texts.REASON_MISSING)
    elif asks:
        given = ActionDetails(reason.strip(), message.strip() or None, ticket)
        problem.warning(_ask(form, RulePart(match, preview.sessions, RULE_ENDS[end], preview.words), given))
    elif preview.is_wide and typed != preview.words:
        problem.warning(texts.RULE_WIDE_MISSING)
    else:
        details = RuleDetails(reason.strip(), message.strip() or None, ticket, RULE_ENDS[end], typed)
        sentence = _add(form, match, preview, details)
        if sentence is not None:
            problem.warning(sentence)


def _ask(form: _Form, rule: RulePart, details: ActionDetails) -> str:
    """Ask another admin and close the form; or return why no one could be asked."""
    store = open_store()
    try:
        asked = approvals.ask(store.presence, None, rule, details)
    except REFUSALS as error:
        return texts.action_failed(plain(error))
    notifications.notify(Notification("done", texts.asked(local_time(asked.until))))
    approvals.requests(store, fresh=True)
    _reset(form)
    st.rerun()


def _add(form: _Form, match: RuleConditions, preview: BlockRulePreview, details: RuleDetails) -> str | None:
    """Add the rule and close the form; or return why it was not added."""
    try:
        rule = block_rules.add(open_store().presence, match, preview.sessions, details)
    except REFUSALS as error:
        if isinstance(error, InvalidArgument) and error.field == "expected":
            form.preview = None  # it is counted again before anything is added
            form.problem = plain(error)
            st.rerun()
        return texts.action_failed(plain(error))
    until = texts.rule_ends(minute(rule.until, zone()) if rule.until else None)
    notifications.notify(Notification("done", texts.rule_is_added(_words(preview), until)))
    this_tab().acted += 1
    _reset(form)
    st.rerun()


def _words(preview: BlockRulePreview) -> str:
    """What the rule matches, safe for Markdown."""
    return name(cut(literal(preview.words), 140))
