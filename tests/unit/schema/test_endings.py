"""The table of end reasons is complete, and what follows it is stored as before."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from gettext import NullTranslations
from typing import get_args

from presence_core import EndCause, EndReason, EventKind, Settings
from presence_core.models import Sample
from presence_core.schema.endings import END_REASONS, ENDINGS, WebhookKind, Why, counted, kept
from presence_core.scripts.maintenance import WRITE_SAMPLE
from presence_core.scripts.sessions import END_SESSIONS
from presence_core.web.service.routes.events import stream
from presence_core.web.webhooks import __doc__ as webhooks
from presence_core.web.your_devices.page_html import why_sentence
from presence_dashboard.demo import pages

SETTINGS = Settings(keep_kicked=1, keep_replaced=2, keep_expired=3, keep_logout=4, keep_people=5)


def test_every_reason_and_every_cause_has_one_row() -> None:
    assert Counter(ending.reason for ending in ENDINGS) == Counter(get_args(EndReason))
    assert Counter(cause for ending in ENDINGS for cause in ending.causes) == Counter(get_args(EndCause))


def test_retention_is_a_setting_that_the_scripts_unpack_in_the_same_order() -> None:
    assert kept(SETTINGS) | {"kicked": 1, "replaced": 2, "expired": 3, "logout": 4} == kept(SETTINGS)
    assert SETTINGS.policy(100)[:20].hex() == "0000000100000002000000030000000400000005"
    assert len(SETTINGS.policy(100)) == 9 * 4
    assert "local kicked, replaced, expired, logout, people, events, audit, ttl, devices =" in END_SESSIONS.text
    assert "keep = {kicked = kicked, replaced = replaced, expired = expired, logout = logout" in END_SESSIONS.text


def test_a_sample_counts_each_end_where_the_stored_records_have_it() -> None:
    assert {ending.counted for ending in ENDINGS} <= {field.name for field in fields(Sample)}
    totals = dict.fromkeys(END_REASONS, 0) | {"login": 9, "logout": 1, "expired": 3, "kicked": 2, "replaced": 4}
    assert counted(totals) == [1, 2, 3, 4]
    kinds = "'login', 'logout', 'kicked', 'expired', 'replaced', 'new_device', 'distant', 'failed'"
    assert f"KINDS = {{{kinds}}}" in WRITE_SAMPLE.text


def test_every_end_has_a_sentence_for_its_user() -> None:
    sentences = {why_sentence(NullTranslations(), why) for why in get_args(Why)}
    assert len(sentences) == len(get_args(Why))
    assert pages._ENDINGS.keys() == set(get_args(EndReason))


def test_the_descriptions_of_events_and_webhooks_name_every_kind() -> None:
    assert [kind for kind in get_args(EventKind) if not re.search(rf"\b{kind}\b", stream.__doc__ or "")] == []
    assert [kind for kind in get_args(WebhookKind) if not re.search(rf"\b{kind}\b", webhooks or "")] == []
