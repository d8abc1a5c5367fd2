"""The choice of how long to block a person, and the fields of a block rule: what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import streamlit as st

from presence_core import Block, SessionFilter
from presence_dashboard import texts
from presence_dashboard.actions.block_rules import RuleConditions
from presence_dashboard.components import notifications
from presence_dashboard.language import gettext
from presence_dashboard.texts import english

BLOCKS: Final[dict[str, int | None]] = {
    english.BLOCK_NOT: None,
    english.BLOCK_HOUR: 3_600,
    english.BLOCK_DAY: 86_400,
    english.BLOCK_WEEK: 604_800,
    english.BLOCK_MONTH: 2_592_000,
    english.BLOCK_UNTIL_UNBLOCKED: 0,
}
"""English label → seconds; 0: until unblocked; None: no block."""


@dataclass(frozen=True, slots=True)
class BlockEnd:
    """The chosen end of a block."""

    seconds: int | None = None  #: as ``ActionDetails.block``
    is_unchanged: bool = False  #: the existing block keeps its end
    is_shorter: bool = False  #: earlier than the end of the existing block
    shorten: bool = False  #: the reader confirmed that


def choose_block_end(
    number: int, act: Literal["kick", "block"], existing: Block | None, on_change: Callable[[], None]
) -> BlockEnd:
    """Draw the choice, outside the form, because other fields depend on it.

    number: of the dialog. existing: the block there is. on_change: called after a new choice.
    """
    labels = _labels(act, existing)
    chosen = st.selectbox(
        texts.BLOCK_FOR,
        list(labels),
        key=choice_key(number),
        help=texts.BLOCK_HELP,
        format_func=labels.__getitem__,
        on_change=on_change,
    )
    if chosen == english.BLOCK_UNCHANGED:
        return BlockEnd(is_unchanged=True)
    seconds = BLOCKS[chosen]
    if existing is None or not _is_shorter(existing, seconds):
        return BlockEnd(seconds)
    if act == "kick":
        st.caption(texts.longer_stays(notifications.block_end(existing)))
        return BlockEnd(seconds, is_shorter=True)
    shorten = st.checkbox(texts.shorten(notifications.block_end(existing)), key=f"shorten-{number}")
    return BlockEnd(seconds, is_shorter=True, shorten=shorten)


def _labels(act: Literal["kick", "block"], existing: Block | None) -> dict[str, str]:
    """Options → labels that fit the action and the existing block."""
    labels = {label: gettext(label) for label in BLOCKS}
    if act == "block":
        del labels[english.BLOCK_NOT]
        if existing is not None:
            return {english.BLOCK_UNCHANGED: texts.unchanged_end(notifications.block_end(existing))} | labels
    elif existing is not None:
        labels[english.BLOCK_NOT] = texts.BLOCK_UNCHANGED
    return labels


def choice_key(number: int) -> str:
    return f"block-{number}"


def is_block_chosen(number: int) -> bool:
    return BLOCKS.get(st.session_state.get(choice_key(number), english.BLOCK_NOT)) is not None


# -- block rules -------------------------------------------------------------------------------------------------------

RULE_ENDS: Final[dict[str, int | None]] = {
    **{label: seconds for label, seconds in BLOCKS.items() if seconds},
    english.RULE_UNTIL_REMOVED: None,
}
"""English label → seconds; None: until removed."""


def rule_fields(key: str, *, optional: bool = False, begin: str | None = None) -> None:
    """Draw the fields outside of a form.

    key: of the form, new for each one. optional: there may be no rule. begin: the kind that is chosen first.
    """
    if optional:
        kinds, label = [english.BLOCK_ALSO_NOT, *_KINDS], texts.BLOCK_ALSO
    else:
        kinds, label = _KINDS, texts.RULE_KIND
    kind = st.segmented_control(
        label, kinds, default=begin or kinds[0], format_func=gettext, required=True, key=f"rule-kind-{key}"
    )
    if kind == english.RULE_VERSION:
        with st.container(horizontal=True, gap="small"):
            st.text_input(texts.LABEL_APP, key=f"rule-app-{key}", max_chars=64)
            st.text_input(texts.RULE_VERSION_FIELD, key=f"rule-version-{key}", max_chars=64)
        st.caption(texts.RULE_LIES)
    elif kind == english.RULE_COUNTRY:
        st.text_input(texts.RULE_COUNTRY_FIELD, key=f"rule-country-{key}", max_chars=2, placeholder="FR")
        st.caption(texts.RULE_PLACES)
    elif kind == english.RULE_NETWORK:
        st.text_input(
            texts.RULE_NETWORK_FIELD, key=f"rule-network-{key}", max_chars=64, placeholder=texts.RULE_NETWORK_HINT
        )
        st.caption(texts.RULE_NAT)


_KINDS: Final = [english.RULE_NETWORK, english.RULE_COUNTRY, english.RULE_VERSION]


def entered_rule(key: str) -> RuleConditions:
    """What the fields hold now. A callback asks too: a click may send the last field with it. Empty: no rule."""

    def entered(field: str) -> str:
        return str(st.session_state.get(f"rule-{field}-{key}") or "").strip()

    if entered("kind") == english.BLOCK_ALSO_NOT:
        return RuleConditions()
    if entered("kind") == english.RULE_VERSION:
        return RuleConditions(app=entered("app"), app_version=entered("version"))
    if entered("kind") == english.RULE_COUNTRY:
        return RuleConditions(country=entered("country"))
    return RuleConditions(network=entered("network"))


def fill_rule(key: str, search: SessionFilter) -> None:
    """Fill the fields with what a search asks for, before they are drawn."""
    known = {"network": search.ip, "country": search.country, "app": search.app, "version": search.app_version}
    for field, value in known.items():
        st.session_state.setdefault(f"rule-{field}-{key}", value or "")


def _is_shorter(existing: Block, seconds: int | None) -> bool:
    if not seconds:
        return False
    return existing.until is None or datetime.now(UTC) + timedelta(seconds=seconds) < existing.until
