"""Outcomes of staff actions in the language and the time zone of the page."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence, SessionFilter
from presence_core.text.languages import LANGUAGES
from presence_dashboard.format import in_zone, minute
from presence_dashboard.language import in_language
from tests.dashboard.conftest import SCRIPT, cells

AT = "2026-11-27 03:25:53 UTC"
OTHERS = (
    "no session to end", "2 sessions to sign in again", "no session to sign in again", "unblocked", "was not blocked",
    "kick refused once", f"kick_where refused 3 times, last at {AT}",
    "1 session exported", "1,234 ended sessions exported", "2 blocks exported", "1 bulk kick exported",
    "3 staff actions exported", "7 is now admin", "7 is now viewer, was support",
    "7 is no longer on the staff, was admin", "7 chose a password", "7 was given a one-time password",
    "7 was signed out, 2 sign-ins ended", f"192.0.2.0/24 blocked until {AT} (rule 1); 1 live session matched",
    "192.0.2.0/24 blocked until removed (rule 1); 0 live sessions matched",
    "192.0.2.0/24 no longer blocked (rule 1, by 7)", f"all that began before {AT} signed out",
    "2 sessions erased, 1 of them live", "all that is kept of this person", "job 1: paused", "job 1: resumed",
    "job 1: cancelled", "job 1: 3 sessions match, at most 3 may be ended", "job 1: 1,000 of 1,234 sessions ended",
    "job 1: 2 of 3 sessions ended, then it was cancelled",
    f"1 session ended, blocked until {AT} (7)", f"blocked until unblocked, before: until {AT} by 7 (8)",
    f"still blocked until unblocked (7) by 8, asked for: until {AT}",
    f"set again: block made shorter: until {AT}, before: until unblocked by 7",
)  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_outcome_is_in_english_on_a_page_in_another_language(language: str) -> None:
    with in_language(language):
        shown = {text: in_zone(text, UTC) for text in OTHERS}
    if language == "en":
        assert shown == {text: text for text in OTHERS}
        return
    assert [text for text, words in shown.items() if words == text] == []
    if language in ("ja", "zh_Hans"):
        names = re.compile(r"UTC|admin|support|viewer")
        assert [words for words in shown.values() if re.search("[A-Za-z]", names.sub("", words))] == []


def test_the_end_of_a_block_in_an_outcome_is_rounded_and_local_in_each_language() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    with in_language("de"):
        end = minute(datetime(2026, 11, 27, 3, 25, 53, tzinfo=UTC), berlin)
        assert in_zone(f"1 session ended, blocked until {AT}", berlin) == f"1 Sitzung beendet, gesperrt bis {end}"
        assert in_zone("of another version", berlin) == "of another version"


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
