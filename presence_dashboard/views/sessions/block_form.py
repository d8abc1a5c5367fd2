"""The part of a dialog that adds a block rule to a bulk kick: what it refuses, for how long, and who that is now."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from presence_core import BlockRule, BlockRulePreview
from presence_dashboard import texts
from presence_dashboard.actions import block_rules
from presence_dashboard.actions.approvals import RulePart, Started
from presence_dashboard.actions.block_rules import RuleConditions
from presence_dashboard.components import notifications
from presence_dashboard.components.block_choice import RULE_ENDS, entered_rule, rule_fields
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import cut, literal, minute, name, number
from presence_dashboard.language import gettext
from presence_dashboard.views.sessions import bulk_kick_progress


@dataclass(slots=True)
class BlockForm:
    """What a dialog remembers of the rule."""

    match: RuleConditions | None = None  #: of the preview
    preview: BlockRulePreview | None = None
    problem: str | None = None
    begin: str | None = None  #: the kind that is chosen first: an English label
    end: str | None = None  #: the same, of how long it lasts


def block_form(key: str, form: BlockForm, *, confirms_wide: bool) -> RulePart | str | None:
    """Draw the fields. Returns the rule; None: no block is chosen; or a sentence: what is missing.

    key: of the dialog, new for each one. confirms_wide: a large network or a country is typed again.
    """
    rule_fields(key, optional=True, begin=form.begin)
    match = entered_rule(key)
    if not match:
        form.match = form.preview = None
        return None
    if not all(match.values()):
        st.caption(texts.BLOCK_ALSO_INCOMPLETE)
        return texts.BLOCK_ALSO_INCOMPLETE
    if form.match != match or (form.preview is None and form.problem is None):
        _count(form, match)
    preview = form.preview
    if preview is None:
        st.warning(form.problem or "")
        return form.problem or texts.BLOCK_ALSO_INCOMPLETE
    sessions = texts.number_of_sessions(preview.sessions, number(preview.sessions))
    st.markdown(texts.block_also_found(rule_words(preview), sessions))
    ends = list(RULE_ENDS)
    index = ends.index(form.end) if form.end in ends else 0
    most = 2 * preview.sessions + 1_000  # a rule ends no session: some more logins meanwhile are no reason to refuse it
    end = st.selectbox(texts.RULE_FOR, ends, index=index, format_func=gettext, key=f"rule-end-{key}")
    if not preview.is_wide:
        return RulePart(match, most, RULE_ENDS[end])
    st.warning(texts.RULE_WIDE if preview.network else texts.RULE_WIDE_COUNTRY)
    if confirms_wide:
        typed = st.text_input(texts.rule_type_wide(preview.words), key=f"rule-typed-{key}", max_chars=64).strip()
        if typed != preview.words:
            return texts.RULE_WIDE_MISSING
    return RulePart(match, most, RULE_ENDS[end], preview.words)


def _count(form: BlockForm, match: RuleConditions) -> None:
    form.match, form.preview, form.problem = match, None, None
    try:
        form.preview = block_rules.preview(open_store().presence, match)
    except REFUSALS as error:
        form.problem = plain(error)


def rule_words(rule: BlockRule | BlockRulePreview) -> str:
    """What the rule matches, safe for Markdown."""
    return name(cut(literal(rule.words), 140))


def not_kicked(started: Started) -> str:
    """That the rule is in force, and why the kick did not start; safe for Markdown."""
    blocked = _added(started.rule) if started.rule else ""
    return texts.blocked_not_kicked(blocked, plain(started.failure) if started.failure else "")


def _added(rule: BlockRule) -> str:
    return texts.rule_is_added(rule_words(rule), texts.rule_ends(minute(rule.until, zone()) if rule.until else None))


def follow_started(started: Started) -> None:
    """Say what was started, and show the progress of the bulk kick."""
    if started.rule is not None:
        notifications.notify(Notification("done", _added(started.rule)))
    if started.job is not None:
        bulk_kick_progress.follow(started.job)
    this_tab().acted += 1
