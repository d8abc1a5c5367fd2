"""Blocks as staff see them: in the list, on the Person page, in each dialog; and how a block is changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.format import minute
from tests.dashboard.conftest import confirm, log_in, open_again, table, tables, tick, toasts, uids
from tests.dashboard.pages.test_person_page import look_for, said

HELD = "until unblocked by **alex** (**FR-1**)"
LINE = texts.is_blocked(None, HELD)


def fraud(presence: Presence, uid: str, duration: int | None = None) -> None:
    presence.block(uid, by="alex", reason="Fraud case", message="Call us.", ticket="FR-1", duration=duration)


def choose(app: AppTest, end: str) -> AppTest:
    return next(box for box in app.selectbox if box.label == texts.BLOCK_FOR).set_value(end).run()


def message(app: AppTest) -> str:
    return str(next(area for area in app.text_area if area.label == texts.MESSAGE).value)


def test_the_list_shows_blocks_and_has_the_column_only_where_there_are_some(app: AppTest, presence: Presence) -> None:
    log_in(presence, 2)
    app.run()
    assert "blocked" not in table(app).columns
    fraud(presence, "user01")
    app.session_state["session-list"].refresh()
    open_again(app)
    assert dict(zip(uids(app), table(app).column("blocked"), strict=True)) == {
        "user01": "until unblocked by alex (FR-1)", "user00": "",
    }  # fmt: skip


def test_a_kick_dialog_shows_the_block_and_leaves_it_as_it_is(app: AppTest, presence: Presence) -> None:
    log_in(presence, 2)
    fraud(presence, "user00")
    tick(app.run(), 0, 1)
    app.button(key="kick-selected").click().run()
    assert texts.is_blocked("**user00**", HELD) in said(app)
    next(element for element in app.button if element.label == texts.CANCEL).click().run()
    tick(app, 1)
    app.button(key="kick-selected").click().run()
    assert LINE in said(app)
    choose(app, texts.BLOCK_HOUR)
    assert texts.longer_stays("until unblocked") in said(app)
    confirm(app)
    block = presence.blocked("user00")
    assert block is not None
    assert (block.until, block.reason, block.ticket) == (None, "Fraud case", "FR-1")
    assert texts.still_blocked("**user00**", HELD) in toasts(app)


def test_the_person_page_shows_until_when_by_whom_and_all_tickets(app: AppTest, presence: Presence) -> None:
    fraud(presence, "dana", 3600)
    presence.block("dana", by="sam", reason="Spam", ticket="SP-2", duration=60)
    look_for(app, "dana")
    block = presence.blocked("dana")
    assert block is not None
    assert block.until is not None
    held = f"until {minute(block.until)} by **alex** (**FR-1**, **SP-2**)"
    assert texts.person_blocked(held) in said(app)
    assert texts.FACT_UNTIL not in [element.value for element in app.caption], "its end is said once"
    app.button(key="unblock").click().run()
    assert texts.is_blocked(None, held) in said(app)


def test_tickets_are_links_where_the_ticket_system_has_an_address(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_TICKET_URL", "https://tickets.example.com/{ticket}")
    fraud(presence, "dana", 3600)
    presence.block("dana", by="sam", reason="Spam", ticket="SP/2", duration=60)
    look_for(app, "dana")
    links = ["[**FR-1**](https://tickets.example.com/FR-1)", "[`SP/2`](https://tickets.example.com/SP%2F2)"]
    assert f"({', '.join(links)})" in said(app)
    for link in links:
        assert texts.labelled(texts.LABEL_TICKET, link) in said(app), "the timeline has it too"


def test_blocks_report_and_history_link_tickets(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_TICKET_URL", "https://tickets.example.com/{ticket}?view=1")
    link = '<a href="https://tickets.example.com/FR-1?view=1">FR-1</a>'
    fraud(presence, "dana")
    presence.add_block_rule(network="198.51.100.0/24", by="alex", reason="Attack", expected=1, ticket="FR-1")
    html = {}
    for page in ("blocks", "report", "history"):
        app.query_params["view"] = "blocks"
        app.switch_page(f"views/{page}/{page}.py").run()
        assert not app.exception
        html[page] = "".join(element.proto.body for element in app.get("html"))
        links = [row["links"]["ticket"] for shown in tables(app) for row in shown.data["rows"]]
        assert links == ["https://tickets.example.com/FR-1?view=1"] * {"blocks": 2, "report": 0, "history": 1}[page]
    assert html["report"].count(link) == 3, "in the list of tickets and in both rows"


def test_a_pasted_address_of_a_ticket_is_stored_as_the_ticket(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_TICKET_URL", "https://tickets.example.com/{ticket}")
    log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    app.text_input(key="ticket-1").set_value("https://tickets.example.com/FR-2?" + "x" * 80).run()
    assert app.text_input(key="ticket-1").value == "FR-2"
    confirm(app)
    assert [end.ticket for end in presence.ended("user00")] == ["FR-2"]


def test_changing_a_block_opens_filled_in_and_keeps_the_end(app: AppTest, presence: Presence) -> None:
    fraud(presence, "dana", 3600)
    before = presence.blocked("dana")
    assert before is not None
    look_for(app, "dana")
    app.button(key="block").click().run()
    assert texts.CHANGES_BLOCK in said(app)
    assert [area.value for area in app.text_area][-2:] == ["Fraud case", "Call us."], "after the box for a remark"
    assert next(element for element in app.text_input if element.label == texts.TICKET).value == "FR-1"
    assert next(box for box in app.selectbox if box.label == texts.BLOCK_FOR).value == texts.BLOCK_UNCHANGED
    confirm(app, "Fraud case, two accounts")
    after = presence.blocked("dana")
    assert after is not None
    assert (after.until, after.reason, after.tickets) == (before.until, "Fraud case, two accounts", ["FR-1"])


def test_a_block_gets_shorter_only_where_that_is_ticked(app: AppTest, presence: Presence) -> None:
    fraud(presence, "dana")
    look_for(app, "dana")
    app.button(key="block").click().run()
    assert not app.checkbox
    choose(app, texts.BLOCK_HOUR)
    assert [box.label for box in app.checkbox] == [texts.shorten("until unblocked")]
    confirm(app, "Clear by noon")
    assert texts.SHORTEN_MISSING in [warning.value for warning in app.warning]
    block = presence.blocked("dana")
    assert block is not None
    assert block.until is None
    app.checkbox[0].check().run()
    confirm(app, "Clear by noon")
    block = presence.blocked("dana")
    assert block is not None
    assert block.until is not None
    assert block.until - datetime.now(UTC) < timedelta(hours=1, minutes=1)
    assert (block.reason, block.tickets) == ("Clear by noon", ["FR-1"])


def test_a_phrase_fits_the_block_that_is_chosen(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    app.button_group(key="phrase-1").set_value("Suspicious sign-in").run()
    assert message(app) == texts.PHRASES["Suspicious sign-in"][1]
    choose(app, texts.BLOCK_HOUR)
    assert message(app) == texts.PHRASES_BLOCKED["Suspicious sign-in"][0]
    assert "sign in again" not in message(app)
    choose(app, texts.BLOCK_NOT)
    assert message(app) == texts.PHRASES["Suspicious sign-in"][1]
    typed = "Please call Kim."
    area = next(area for area in app.text_area if area.label == texts.MESSAGE)
    area.set_value(f"{typed} {texts.PHRASES['Suspicious sign-in'][1]} Sorry!").run()
    choose(app, texts.BLOCK_DAY)
    assert message(app) == f"{typed} {texts.PHRASES_BLOCKED['Suspicious sign-in'][0]} Sorry!"
    app.button_group(key="phrase-1").set_value("Lost device").run()
    assert message(app).startswith(f"{typed} ")
    assert message(app).endswith(f"Sorry! {texts.PHRASES_BLOCKED['Lost device'][0]}")
    choose(app, texts.BLOCK_NOT)
    assert message(app).endswith(f"Sorry! {texts.PHRASES['Lost device'][1]}")


def test_a_phrase_fits_a_user_who_is_blocked_already(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    fraud(presence, "user00")
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    app.button_group(key="phrase-1").set_value("Shared account").run()
    assert message(app) == texts.PHRASES_BLOCKED["Shared account"][0]


def test_a_phrase_of_a_block_alone_speaks_of_no_device(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    fraud(presence, "user00")
    look_for(app, "user00")
    app.button(key="block").click().run()
    app.button_group(key="phrase-1").set_value("Shared account").run()
    assert message(app) == f"Call us. {texts.PHRASES_BLOCKED['Shared account'][1]}"


def test_every_phrase_says_what_holds_with_a_block() -> None:
    assert set(texts.PHRASES) == set(texts.PHRASES_BLOCKED) == set(texts.PHRASES_SIGN_IN)
    assert not [words for both in texts.PHRASES_BLOCKED.values() for words in both if "sign in again" in words]
