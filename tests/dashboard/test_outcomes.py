"""Outcomes of staff actions in the language and the time zone of the page."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import AuditEntry, AuditFact, Presence, SessionFilter
from presence_core.schema.audit_facts import FACTS, VALUE_KINDS
from presence_core.text.languages import LANGUAGES
from presence_dashboard.format import minute, outcome
from presence_dashboard.language import in_language
from tests.dashboard.conftest import SCRIPT, cells

AT = datetime(2026, 11, 27, 3, 25, 53, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def an_entry(code: str, count: int = 2) -> AuditEntry:
    """An audit entry with this fact. Texts are numbers, so that what is in Latin letters is not translated."""
    named = re.findall(r"\{(\w+)\}", " ".join(FACTS[code]))
    ms = int(AT.timestamp() * 1000)
    kinds = {"time": ms, "block_end": ms, "rule_end": None, "number": count, "action": "kick", "saved_kind": "view"}
    fact = AuditFact(code, {name: kinds.get(VALUE_KINDS.get(name, ""), "7") for name in named})
    return AuditEntry(at=AT, by="7", action="kick", facts=(fact,), outcome=str(fact))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_outcome_is_in_english_on_a_page_in_another_language(language: str) -> None:
    entries = [an_entry(code, count) for code in FACTS for count in (1, 2)]
    with in_language(language):
        shown = [(entry.outcome, outcome(entry, UTC)) for entry in entries]
    if language == "en":
        others = [(text, words) for text, words in shown if text.lower() != words.lower()]
        assert {entry.facts[0].code for entry in entries if (entry.outcome, outcome(entry, UTC)) in others} == set()
        return
    assert {text for text, words in shown if words == text} <= {"2 sessions", "1 session"}, "French has the same words"
    if language in ("ja", "zh_Hans"):
        assert [words for _, words in shown if re.search("[A-Za-z]", words.replace("UTC", ""))] == []


def test_the_end_of_a_block_in_an_outcome_is_rounded_and_local_in_each_language() -> None:
    facts = AuditFact("ended", {"count": 1}), AuditFact("blocked", {"until": int(AT.timestamp() * 1000), "tickets": ""})
    kick = AuditEntry(at=AT, by="7", action="kick", facts=facts)
    with in_language("de"):
        assert outcome(kick, BERLIN) == f"1 Sitzung beendet, gesperrt bis {minute(AT, BERLIN)}"
        assert outcome(AuditEntry(at=AT, by="7", action="kick", outcome="of a site"), BERLIN) == "of a site"


def test_the_report_is_japanese(app: AppTest, presence: Presence) -> None:
    presence.login("ada")
    presence.kick("ada", by="7", reason="?", block_for=60)
    presence.denied(by="7", what="kick", uid="ada")
    presence.start_kick(SessionFilter(device="Mac"), by="7", reason="?", expected=1)
    page = AppTest.from_file(SCRIPT, default_timeout=30)
    page.context["locale"] = "ja"
    page.switch_page("views/report/report.py").run()
    assert not page.exception
    outcomes = cells(page, "結果")
    assert len(outcomes) == 3
    assert not re.search("[A-Za-z]", "".join(outcomes).replace("Mac", "")), outcomes
