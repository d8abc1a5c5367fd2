"""The Blocks page: rules are previewed, added, shown and removed by admins; everybody else reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import LoginRefused, Presence, Settings
from presence_dashboard import access, texts
from presence_dashboard.format import minute
from presence_dashboard.roles import HIDDEN, Actor
from tests.dashboard.conftest import cells, log_in, open_page, pick_row, table, tables, toasts
from tests.dashboard.pages.test_person_page import said
from tests.support.place_file import write_place_file
from tests.support.servers import Server

NETWORK = "198.51.100.0/24"


@pytest.fixture
def blocks(app: AppTest, presence: Presence) -> AppTest:
    presence.login("ada", ip="198.51.100.7", app="ios", app_version="4.2")
    presence.login("ada", ip="198.51.100.8")
    presence.login("bob", ip="198.51.100.9")
    return app.run().switch_page("views/blocks/blocks.py").run()


def _fill(app: AppTest, label: str, value: str) -> AppTest:
    _write(app, label, value)
    return app.run()


def _write(app: AppTest, label: str, value: str) -> None:
    """Into a form, which sends it with its button."""
    fields = [*app.text_input, *app.text_area]
    next(field for field in fields if field.label == label).set_value(value)


def _preview(app: AppTest, network: str) -> AppTest:
    if not any(button.key == "preview-rule" for button in app.button):
        app.button(key="add-rule").click().run()
    _fill(app, texts.RULE_NETWORK_FIELD, network)
    return app.button(key="preview-rule").click().run()


def _confirm(app: AppTest) -> AppTest:
    return next(button for button in app.button if button.label == texts.RULE_CONFIRM).click().run()


def _errors(app: AppTest) -> list[str]:
    return [element.value for element in (*app.warning, *app.error)]


def test_without_rules_and_blocks_the_page_says_so(blocks: AppTest) -> None:
    assert not blocks.exception
    for sentence in (texts.RULES_EXPLAINED, texts.RULES_EMPTY, texts.BLOCKED_PEOPLE_EMPTY):
        assert sentence in said(blocks)


def test_a_rule_is_added_after_a_preview_and_enforced(blocks: AppTest, presence: Presence) -> None:
    _preview(blocks, "198.51.100.7/24")
    assert f"`{NETWORK}`: **2 people** with **3 sessions** match now" in said(blocks)
    assert texts.RULE_NAT in said(blocks)
    _confirm(blocks)
    assert texts.REASON_MISSING in _errors(blocks)
    assert presence.block_rules() == []
    _write(blocks, texts.REASON, "Attack")
    _write(blocks, texts.MESSAGE, "Call us.")
    _confirm(blocks)
    [rule] = presence.block_rules()
    assert (rule.network, rule.by, rule.reason, rule.sessions) == (NETWORK, "local operator", "Attack", 3)
    assert rule.until is not None
    assert texts.rule_is_added(f"`{NETWORK}`", texts.rule_ends(minute(rule.until))) in toasts(blocks)
    assert table(blocks, texts.RULES_ALT).column("match") == [NETWORK]
    assert not any(button.key == "preview-rule" for button in blocks.button), "the form is closed"
    with pytest.raises(LoginRefused, match="Call us"):
        presence.login("eve", ip="198.51.100.1")


def test_a_preview_of_another_network_does_not_count(blocks: AppTest, presence: Presence) -> None:
    _preview(blocks, "203.0.113.0/24")
    assert "no one who matches" in said(blocks)
    _fill(blocks, texts.RULE_NETWORK_FIELD, NETWORK)
    assert texts.RULE_PREVIEW_FIRST in said(blocks)
    assert not any(button.label == texts.RULE_CONFIRM for button in blocks.button)


def test_a_rule_that_would_concern_more_people_than_shown_is_counted_again(blocks: AppTest, presence: Presence) -> None:
    _preview(blocks, NETWORK)
    presence.login("eve", ip="198.51.100.10")
    _write(blocks, texts.REASON, "Attack")
    _confirm(blocks)
    assert texts.ERROR_FIELD["expected"][""] in _errors(blocks)
    assert presence.block_rules() == []


def test_a_country_is_chosen_by_its_code_and_typed_again(blocks: AppTest, presence: Presence) -> None:
    blocks.button(key="add-rule").click().run()
    blocks.button_group(key="rule-kind-0").set_value(texts.RULE_COUNTRY).run()
    for code, sentence in (("F1", texts.ERROR_FIELD["country"][""]), ("fr", texts.RULE_WIDE_COUNTRY)):
        _fill(blocks, texts.RULE_COUNTRY_FIELD, code)
        blocks.button(key="preview-rule").click().run()
        assert sentence in [warning.value for warning in blocks.warning]
    assert texts.RULE_PLACES in said(blocks)
    _write(blocks, texts.REASON, "Attack")
    _confirm(blocks)
    assert texts.RULE_WIDE_MISSING in _errors(blocks)
    _write(blocks, texts.rule_type_wide("FR"), "FR")
    _confirm(blocks)
    assert [rule.country for rule in presence.block_rules()] == ["FR"]
    assert table(blocks, texts.RULES_ALT).column("match") == ["FR"]


def test_a_large_network_is_typed_again(blocks: AppTest, presence: Presence) -> None:
    _preview(blocks, "0.0.0.0/0")
    _write(blocks, texts.REASON, "Attack")
    _confirm(blocks)
    assert texts.RULE_WIDE_MISSING in _errors(blocks)
    assert texts.RULE_WIDE in [warning.value for warning in blocks.warning]
    _write(blocks, texts.rule_type_wide("0.0.0.0/0"), "0.0.0.0/0")
    _confirm(blocks)
    assert [rule.network for rule in presence.block_rules()] == ["0.0.0.0/0"]


@pytest.mark.parametrize(("network", "sentence"), [("here", texts.ERROR_FIELD["network"][""])])
def test_what_is_no_network_is_said_in_words(blocks: AppTest, network: str, sentence: str) -> None:
    assert sentence in _errors(_preview(blocks, network))


def test_a_version_needs_an_app(blocks: AppTest, presence: Presence) -> None:
    blocks.button(key="add-rule").click().run()
    blocks.button_group(key="rule-kind-0").set_value(texts.RULE_VERSION).run()
    assert texts.RULE_LIES in said(blocks)
    _fill(blocks, texts.RULE_VERSION_FIELD, "4.2")
    blocks.button(key="preview-rule").click().run()
    assert _errors(blocks)
    _fill(blocks, texts.LABEL_APP, "ios")
    blocks.button(key="preview-rule").click().run()
    _write(blocks, texts.REASON, "Broken release")
    _confirm(blocks)
    assert [rule.words for rule in presence.block_rules()] == ["ios 4.2"]


def test_a_rule_is_removed_with_a_reason(blocks: AppTest, presence: Presence) -> None:
    rule = presence.add_block_rule(network=NETWORK, by="sam", reason="Attack", message="Call us.", expected=9)
    presence.block("dana", by="sam", reason="Fraud")
    blocks.button(key="refresh-list").click().run()
    assert table(blocks, texts.BLOCKED_PEOPLE_ALT).column("person") == ["dana"]
    pick_row(blocks, 0, texts.RULES_ALT)
    assert "Call us." in [text.value for text in blocks.text]
    remove = next(button for button in blocks.button if button.label == texts.RULE_REMOVE_CONFIRM)
    remove.click().run()
    assert texts.REASON_MISSING in _errors(blocks)
    next(field for field in blocks.text_input if field.key == f"remove-reason-{rule.id}").set_value("over")
    next(button for button in blocks.button if button.label == texts.RULE_REMOVE_CONFIRM).click().run()
    assert texts.rule_is_removed(f"`{NETWORK}`") in toasts(blocks)
    assert presence.block_rules() == []


def test_the_rule_of_a_country_leads_to_the_bulk_kick_of_its_live_sessions(
    app: AppTest, presence: Presence, server: Server, tmp_path: Path
) -> None:
    places = Settings(timeout=0.5, place_file=str(write_place_file(tmp_path / "places.mmdb")))
    with Presence.from_url(server.url, places) as site:
        site.login("ada", ip="192.0.2.7")
        site.login("bob", ip="203.0.113.7")
    presence.add_block_rule(country="FR", confirm_wide="FR", by="sam", reason="Attack", expected=9)
    presence.add_block_rule(network=NETWORK, by="sam", reason="Attack", expected=9)
    page = app.run().switch_page("views/blocks/blocks.py").run()
    links = []
    for row in range(2):
        pick_row(page, row, texts.RULES_ALT)
        links += [link.proto for link in page.get("page_link") if link.proto.label == texts.RULE_KICK]
    [link] = links
    assert link.query_string == "country=FR&act=kick"
    kick = open_page(country="FR", act="kick")
    assert cells(kick, texts.LABEL_UID) == ["ada"]
    assert "act" not in kick.query_params
    assert len(presence.list_sessions()) == 2, "nothing ends before it is confirmed"


@pytest.mark.parametrize("role", ["viewer", "support"])
def test_only_admins_add_and_remove_rules(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    log_in(presence, 1)
    presence.add_block_rule(network=NETWORK, by="sam", reason="Attack", expected=9)
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", role)
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "ip")
    page = app.run().switch_page("views/blocks/blocks.py").run()
    shown = HIDDEN if role == "viewer" else NETWORK
    assert table(page, texts.RULES_ALT).column("match") == [shown]
    pick_row(page, 0, texts.RULES_ALT)
    assert texts.RULE_REMOVE_CONFIRM not in [button.label for button in page.button]
    assert not any(button.key == "add-rule" for button in page.button)


def test_a_demoted_admin_adds_no_rule_and_the_attempt_is_audited(
    blocks: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    _preview(blocks, NETWORK)
    _write(blocks, texts.REASON, "Attack")
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "support")
    _confirm(blocks)
    assert presence.block_rules() == []
    assert [entry.outcome for entry in presence.audit() if entry.action == "denied"] == ["add_block_rule refused once"]


@pytest.mark.parametrize("mask", ["", "name"])
def test_blocked_people_have_their_name_unless_it_is_masked(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, mask: str
) -> None:
    presence.login("ada", name="Ada <King>")
    presence.logout("bob", presence.login("bob", name="Bob Stone").session.session_id)
    for uid in ("ada", "bob", "eve"):
        presence.block(uid, by="sam", reason="Fraud", duration=3600)
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", mask)
    page = app.run().switch_page("views/blocks/blocks.py").run()
    names = [HIDDEN, HIDDEN] if mask else ["Ada <King>", "Bob Stone"]
    assert sorted(table(page, texts.BLOCKED_PEOPLE_ALT).column("person")) == sorted(
        [f"{names[0]} (ada)", f"{names[1]} (bob)", "eve"]
    )
    sent = json.dumps([shown.data for shown in tables(page)])
    assert ("Bob Stone" in sent) is (mask == "")
    captions = [[caption.value for caption in page.caption]]
    presence.unblock("eve", by="sam", reason="test")
    captions.append([caption.value for caption in page.button(key="refresh-list").click().run().caption])
    assert [texts.BLOCKED_PEOPLE_UNNAMED in shown for shown in captions] == [True, False]


def test_with_four_eyes_another_admin_is_asked_for_a_wide_rule(
    blocks: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = Actor("eve", "admin", four_eyes=50, can_ask=True)
    monkeypatch.setattr(access, "current", lambda *, touch=True: actor)
    monkeypatch.setattr(access, "require", lambda right, *, action, uid=None: actor)
    _preview(blocks, "198.0.0.0/8")
    assert texts.ASK_WIDE in [box.value for box in blocks.info]
    assert not [field for field in blocks.text_input if field.label == texts.rule_type_wide("198.0.0.0/8")]
    _write(blocks, texts.REASON, "Attack")
    next(button for button in blocks.button if button.label == texts.ASK_ADMIN).click().run()
    assert "An admin has been asked." in toasts(blocks)
    [request] = presence.approval_requests()
    assert (request.network, request.filter, request.sessions, request.duration) == ("198.0.0.0/8", None, 3, 86_400)
    assert presence.block_rules() == []
    presence.set_staff("eve", "admin", by="setup")
    presence.set_staff("grace", "admin", by="setup")
    actor = Actor("grace", "admin", four_eyes=50, can_ask=True)
    app = blocks.switch_page("views/sessions/sessions.py").run()
    app.button(key=f"review-{request.id}").click().run()
    key = f"review-{app.session_state['approval-number']}"
    app.text_input(key=f"rule-typed-{key}").set_value("198.0.0.0/8").run()
    app.button(key=f"danger-{key}").click().run()
    [rule] = presence.block_rules()
    assert (rule.network, rule.by, rule.reason) == ("198.0.0.0/8", "grace", "Attack")
    assert presence.approval_requests()[0].outcome == "block rule added"
    assert presence.counts().sessions == 3
