"""The search of the Sessions page, by box, filter and link, and its results."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import InvalidArgument, Presence, Settings
from presence_dashboard import access, texts, time_range
from presence_dashboard.data import session_query
from presence_dashboard.data.session_query import SessionQuery
from presence_dashboard.roles import HIDDEN, Actor
from presence_dashboard.views.sessions import table_columns
from tests.dashboard.conftest import (
    cells,
    click,
    log_in,
    open_again,
    open_page,
    press,
    table,
    tables,
    tick,
    uids,
    use_old_token,
)
from tests.support.fair_clock import PATIENT
from tests.support.place_file import PLACES, city, write_place_file
from tests.support.servers import Server

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
VIEWER = Actor("vera", "viewer", frozenset({"name", "ip"}))


def search(app: AppTest, text: str) -> AppTest:
    return app.text_input(key="q").set_value(text).run()


def titles(app: AppTest) -> list[str]:
    assert not app.exception
    return [title.value for title in app.subheader]


def shown(app: AppTest) -> str:
    return " | ".join(element.value for kind in (app.markdown, app.caption, app.warning) for element in kind)


def act_as(monkeypatch: pytest.MonkeyPatch, actor: Actor) -> None:
    """Another staff member is signed in."""
    monkeypatch.setattr(access, "current", lambda *, touch=True: actor)


@pytest.fixture
def crowd(presence: Presence) -> None:
    people = [
        ("u1", "Dana Novak", "iPhone", "192.0.2.7"),
        ("u2", "Okafor Danso", "Mac", "192.0.2.99"),
        ("u3", "Jordan Reyes", "Mac", "198.51.100.1"),
        ("dan@example.com", None, "iPhone", "2001:db8::1"),
    ]
    now = time.time()
    rows = [
        {"uid": uid, "name": name, "device": device, "ip": ip, "login_at": now - 10 + place, "last_seen": now}
        for place, (uid, name, device, ip) in enumerate(people)
    ]
    presence.login_many(rows, imported=True)


@pytest.mark.parametrize(
    ("text", "may"),
    [("Dana", True), ("u1", True), ("dan@example.com", True), ("+49 30 1234", True), ("192.0.2.7", False),
     ("192.0.2", False), ("192.0.2.0/24", False), ("2001:db8::1", False), ("2001:db8::/32", False), ("", False)],
)  # fmt: skip
def test_people_who_are_offline_are_not_searched_by_address(text: str, may: bool) -> None:
    assert SessionQuery(text).may_name_a_person is may


def test_a_search_for_a_network_offers_no_search_among_people_who_are_offline(app: AppTest) -> None:
    for text, offered in (("203.0.113.0/24", False), ("Nobody", True)):
        search(app.run(), text)
        assert titles(app) == [texts.NO_MATCH_TITLE]
        assert bool([button for button in app.button if button.key == "look-offline"]) is offered


# -- The box -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dan", ["dan@example.com", "u2", "u1"]),
        ("  NOVÁK ", ["u1"]),
        ("u3", ["u3"]),
        ("192.0.2.7", ["u1"]),
        ("192.0.2.0/24", ["u2", "u1"]),
        ("2001:db8::/32", ["dan@example.com"]),
        ("2001:db8:", ["dan@example.com"]),
        ("2001:", ["dan@example.com"]),
        ("192.0.2.7\n", ["u1"]),
        ("seen at\t192.0.2.7\t" + "again and " * 60, ["u1"]),
    ],
)
def test_one_box_finds_by_name_uid_address_and_block(app: AppTest, crowd: None, text: str, found: list[str]) -> None:
    assert uids(search(app.run(), text)) == found


def test_a_link_opens_what_it_asks_for(app: AppTest, crowd: None) -> None:
    app.query_params.update({"q": "dan", "device": "iPhone"})
    assert uids(app.run()) == ["dan@example.com", "u1"]
    assert app.text_input(key="q").value == "dan"
    assert app.button(key="chip-device").label == texts.labelled("Device", "**iPhone**")


def test_an_invalid_address_block_is_reported_and_the_list_stays(app: AppTest, crowd: None) -> None:
    search(app.run(), "dan")
    search(app, "192.0.2.0/99")
    assert [warning.value for warning in app.warning] == [texts.ERROR_FIELD["ip"][""]]
    assert uids(app) == ["dan@example.com", "u2", "u1"]
    assert app.button(key="kick-all").disabled, "all that match is not what the box says"
    assert uids(search(app, "192.0.2.0/9")) == ["u2", "u1"]
    assert not app.warning


def test_a_text_that_is_too_long_is_reported_and_nothing_can_be_kicked(app: AppTest, crowd: None) -> None:
    search(app.run(), "dan")
    assert app.text_input(key="q").proto.max_chars == 0, "the browser would not send it"
    search(app, "x" * 10_000)
    assert [warning.value for warning in app.warning] == [texts.ERROR_FIELD["text"]["too_long"]]
    assert app.button(key="kick-all").disabled
    assert len(app.query_params["q"][0]) < 1_000, "a longer address could not be loaded again"


def test_an_enter_that_opens_no_one_is_forgotten(app: AppTest, crowd: None) -> None:
    search(app.run(), "192.0.2.7/99")
    app.button(key="open-single").click().run()
    search(app, "Okafor")
    assert len(uids(app)) == 1, "typing alone opens no one"


def test_the_hint_for_no_match_names_a_filter_only_if_one_is_set(app: AppTest, crowd: None) -> None:
    search(app.run(), "chrome")
    assert texts.NO_MATCH in shown(app)
    assert texts.NO_MATCH_FILTERED not in shown(app)
    app.query_params["device"] = "Mac"
    assert texts.NO_MATCH_FILTERED in shown(app.run())


def test_what_matches_nothing_can_be_looked_for_inside_names(app: AppTest, crowd: None) -> None:
    search(app.run(), "ordan")
    assert titles(app) == [texts.NO_MATCH_TITLE]
    app.button(key="look-inside").click().run()
    assert uids(app) == ["u3"]
    assert titles(search(app, "orda")) == [texts.NO_MATCH_TITLE], "a text goes inside names only when that was asked"


def test_an_address_is_not_looked_for_inside_names(app: AppTest, crowd: None) -> None:
    search(app.run(), "203.0.113.1")
    assert titles(app) == [texts.NO_MATCH_TITLE]
    assert not [button for button in app.button if button.key == "look-inside"]


def test_a_new_question_begins_at_its_first_page(app: AppTest, presence: Presence) -> None:
    log_in(presence, 60)
    log_in(presence, 30, "other")
    app.run()
    app.selectbox(key="page-size").select(25).run()
    app.button(key="older").click().run()
    before = app.session_state["session-list"].key
    assert uids(search(app, "user"))[0] == "user59"
    assert app.session_state["session-list"].key != before, "no tick of the old table holds in the new one"
    assert len(app.session_state["session-list"].positions) == 1
    seen = uids(app)
    for _ in range(2):
        seen += uids(app.button(key="older").click().run())
    assert seen == [f"user{number:02}" for number in reversed(range(60))]


def test_logins_since_are_not_said_to_match(app: AppTest, presence: Presence, crowd: None) -> None:
    search(app.run(), "dan")
    log_in(presence, 2, "late")
    open_again(app)
    assert app.button(key="refresh").label == texts.logins_since(2, "2")
    app.button(key="refresh").click().run()
    assert app.button(key="refresh").label == texts.REFRESH
    assert uids(app) == ["dan@example.com", "u2", "u1"]


def test_a_search_while_redis_is_away_leaves_the_rows_and_is_answered_afterwards(
    app: AppTest, server: Server, crowd: None
) -> None:
    app.run()
    server.pause()
    search(app, "novak")
    assert len(uids(app)) == 4
    assert "**Sessions cannot be read at the moment.**" in app.warning[0].value
    assert all(app.button(key=key).disabled for key in ("kick-all", "export", "kick-selected"))
    server.resume()
    open_again(app)
    assert uids(app) == ["u1"]


# -- Filters -----------------------------------------------------------------------------------------------------------


def test_a_menu_counts_its_values_and_a_choice_can_be_taken_back(app: AppTest, crowd: None, presence: Presence) -> None:
    presence.sweep()
    app.session_state["menu-filters"] = True
    app.run()
    labels = [button.label for button in app.button if (button.key or "").startswith("choose-device-")]
    assert labels == [texts.facet_value("**Mac**", "2"), texts.facet_value("**iPhone**", "2")]
    assert texts.FACET_SCOPE in shown(app)
    app.button(key="choose-device-Mac").click().run()
    assert uids(app) == ["u3", "u2"]
    assert app.query_params["device"] == "Mac"
    app.button(key="chip-device").click().run()
    assert len(uids(app)) == 4
    assert "device" not in app.query_params


def test_an_app_version_is_found_under_its_app_and_can_be_taken_back(app: AppTest, presence: Presence) -> None:
    for uid, version in (("u1", "9.9.9"), ("u2", "9.9.9"), ("u3", "10.0")):
        presence.login(uid, app="Shop", app_version=version)
    app.session_state["menu-filters"] = True
    app.run()
    assert [text.value for text in app.markdown].count("**App version**") == 1
    labels = [button.label for button in app.button if (button.key or "").startswith("choose-app_version-")]
    assert labels == [texts.facet_value("`9.9.9`", "2"), texts.facet_value("`10.0`", "1")]
    app.button(key="choose-app_version-10.0").click().run()
    assert uids(app) == ["u3"]
    assert app.query_params["app_version"] == "10.0"
    assert app.button(key="chip-app_version").label == texts.labelled("App version", "`10.0`")
    app.button(key="chip-app_version").click().run()
    assert len(uids(app)) == 3


def test_a_value_without_sessions_stays_chosen_and_finds_none(app: AppTest, crowd: None) -> None:
    app.query_params["device"] = "Nokia"
    assert titles(app.run()) == [texts.NO_MATCH_TITLE]
    assert app.button(key="chip-device").label == texts.labelled("Device", "**Nokia**")


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("new_device", "laptop"), ("on_behalf", "support"), ("sign_in_required", "phone"), ("old_token", "tablet")],
)
def test_a_flag_is_a_filter_and_a_column(
    app: AppTest, crowd: None, presence: Presence, server: Server, flag: str, expected: str
) -> None:
    for device in ("phone", "laptop"):
        presence.login("eve", device=device, device_id=f"device-{device}", session_id=f"session-{device}")
    presence.login("eve", device="support", on_behalf_by="sam", reason="ticket 7")
    presence.require_sign_in("eve", "session-phone", by="sam", reason="lost")
    use_old_token(server, presence.login("eve", device="tablet").token)
    app.session_state["menu-filters"] = True
    app.run()
    assert table(app).column("status").count(texts.FLAG_SIGN_IN) == 1, "shown without a choice of columns"
    app.button(key=f"flag-{flag}").click().run()
    app.multiselect(key="columns").set_value(["device", "flags"]).run()
    assert table(app).column("device") == [expected]
    assert table(app).column("status" if flag == "sign_in_required" else "flags") == [texts.FLAG_WORDS[flag]]
    assert app.query_params["flag"] in (flag, [flag])
    app.button(key="chip-flag").click().run()
    assert len(table(app).column("flags")) == 8


@pytest.fixture
def signed_in(crowd: None, presence: Presence) -> None:
    """Three sessions with a version, a method of the sign-in, and one with a second factor."""
    presence.login("eve", device="old", app_version="2.9", methods=["pwd"])
    presence.login("eve", device="new", app_version="2.10", methods=["pwd", "otp"])
    presence.login("eve", device="key", app_version="2.10-beta", methods=["passkey"])


@pytest.mark.parametrize(
    ("link", "devices", "label"),
    [
        ({"method": "pwd"}, ["new", "old"], texts.labelled(texts.METHOD_FILTER, texts.METHOD_WORDS["pwd"])),
        ({"method": "otp, PWD"}, ["new"], texts.labelled(texts.METHOD_FILTER, "One-time code, Password")),
        ({"method": "passkey"}, ["key"], texts.labelled(texts.METHOD_FILTER, "`passkey`")),
        ({"mfa": "yes"}, ["new"], texts.MFA_WORDS["yes"]),
        ({"mfa": "no", "below": "3"}, ["key", "old"], texts.MFA_WORDS["no"]),
        ({"below": "2.10"}, ["key", "old"], texts.labelled(texts.BELOW_FILTER, "`2.10`")),
        ({"seen": "900", "device": "old"}, ["old"], texts.labelled(texts.LABEL_LAST_ACTIVE, "15 min ago or less")),
    ],
)
def test_the_sign_in_the_version_and_the_last_activity_are_filters(
    app: AppTest, signed_in: None, link: dict[str, str], devices: list[str], label: str
) -> None:
    app.query_params.update(link)
    assert sorted(table(app.run()).column("device")) == sorted(devices)
    chip = app.button(key=f"chip-{next(iter(link))}")
    assert chip.label == label
    chip.click().run()
    assert next(iter(link)) not in app.query_params


def test_the_menu_has_these_filters_and_takes_a_typed_method_and_version(app: AppTest, signed_in: None) -> None:
    app.session_state["menu-filters"] = True
    app.run().button(key="method-otp").click().run()
    assert table(app).column("device") == ["new"]
    app.button(key="chip-method").click().run()
    app.session_state["menu-filters"] = True
    app.run().button(key="mfa-no").click().run()
    app.session_state["menu-filters"] = True
    app.run().button(key="seen-300").click().run()
    app.session_state["menu-filters"] = True
    app.run().text_input(key="typed-method").set_value("passkey").run()
    assert table(app).column("device") == ["key"]
    app.session_state["menu-filters"] = True
    app.run().text_input(key="typed-below").set_value("beta").run()
    assert texts.VERSION_MALFORMED in [caption.value for caption in app.caption]
    assert "below" not in app.query_params, "a text that is no version is not taken"
    app.text_input(key="typed-below").set_value(" 2.10 ").run()
    assert table(app).column("device") == ["key"]
    chosen = {name: app.query_params[name] for name in ("mfa", "seen", "method", "below")}
    assert {name: [value] if isinstance(value, str) else value for name, value in chosen.items()} == {
        "mfa": ["no"], "seen": ["300"], "method": ["passkey"], "below": ["2.10"],
    }  # fmt: skip


LYON, TOKYO = "192.0.2.7", "203.0.113.7"


@pytest.fixture
def placed(server: Server, tmp_path: Path) -> None:
    """Two sessions whose places are known; the second is far from the first."""
    hostile = city("JP", "<b>東京</b> **x** [y](z)", (35, 139), 64510, "| Net |")
    places = str(write_place_file(tmp_path / "places.mmdb", {**PLACES, "203.0.113.0/24": hostile}))
    with Presence.from_url(server.url, Settings(timeout=0.5, place_file=places)) as presence:
        for ip, device in ((LYON, "phone"), (TOKYO, "laptop")):
            presence.login("eve", name="Eve", ip=ip, device=device)
            time.sleep(0.002)  # logins of one millisecond have no order


def test_country_and_provider_are_filters_and_columns(app: AppTest, crowd: None, placed: None) -> None:
    app.session_state["menu-filters"] = True
    app.run().multiselect(key="columns").set_value(["device", "place", "network", "flags"]).run()
    assert set(table(app).column("place")[:2]) == {"<b>東京</b> **x** [y](z), JP", "Lyon, FR"}
    assert set(table(app).column("network")[:2]) == {"| Net | (AS64510)", "Example Telecom (AS64500)"}
    shown = {button.key: button.label for button in app.button}
    assert shown["choose-network-AS64510"] == texts.facet_value("`| Net | (AS64510)`", "1")
    for key, chip, device in (
        ("choose-country-FR", texts.labelled("Country", "**FR**"), "phone"),
        ("choose-network-AS64510", texts.labelled("Provider", "`| Net | (AS64510)`"), "laptop"),
        ("flag-distant", texts.FLAG_DISTANT, "laptop"),
    ):
        app.button(key=key).click().run()
        assert chip in [button.label for button in app.button]
        assert table(app).column("device") == [device]
        app.session_state["menu-filters"] = True
        app.button(key="clear").click().run()
    assert set(table(app).column("flags")[:2]) == {texts.FLAG_DISTANT, ""}


def test_flags_and_place_are_in_the_cells_of_the_first_columns_and_not_twice(
    app: AppTest, crowd: None, placed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = table(app.run()).columns
    assert columns == ["name", *table_columns.AT_FIRST], "no column comes and goes"
    laptop, phone, *rest = [row["marks"] for row in table(app).data["rows"]]
    far = [[texts.FLAG_DISTANT_SHORT, texts.FLAG_DISTANT]]
    hostile = {"note": "<b>東京</b> **x** [y](z), JP", "badges": []}
    assert laptop == {"name": {"note": "", "badges": far}, "ip": hostile}
    assert phone == {"ip": {"note": "Lyon, FR", "badges": []}}
    assert rest == [{}] * 4, "neither flags nor a place"
    app.multiselect(key="columns").set_value(["ip", "place", "flags"]).run()
    assert [row["marks"] for row in table(app).data["rows"]] == [{}] * 6, "each has a column of its own"
    app.multiselect(key="columns").set_value(["ip"]).run()
    act_as(monkeypatch, VIEWER)
    assert [row["marks"] for row in table(app.run()).data["rows"]][:2] == [{"name": {"note": "", "badges": far}}, {}]


def test_a_session_that_has_moved_says_from_where_to_where_and_in_which_time(
    app: AppTest, crowd: None, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(timeout=0.5, place_file=str(write_place_file(tmp_path / "places.mmdb")))
    with Presence.from_url(server.url, settings) as site:
        for device, ip, agent in (("phone", TOKYO, "curl/8"), ("desk", "198.51.100.7", "Wget/1.21")):
            token = site.login("eve", name="Eve", ip=LYON, device=device, user_agent="curl/8").token
            assert site.validate(token, ip=ip, user_agent=agent).moved
    app.session_state["menu-filters"] = True
    app.run().button(key="flag-moved").click().run()
    assert sorted(table(app).column("device")) == ["desk", "phone"]
    badges = [row["marks"]["name"]["badges"] for row in table(app).data["rows"]]
    moved, far = [[words, title] for words, title in (
        (texts.FLAG_MOVED_SHORT, texts.FLAG_MOVED), (texts.FLAG_DISTANT_SHORT, texts.FLAG_DISTANT)
    )]  # fmt: skip
    assert sorted(badges) == [[far, moved], [moved]]
    for masked, words in (
        (False, {"Lyon, FR → Tokyo, JP in ", "Lyon, FR, curl → Paris, FR, Wget in "}),
        (True, {f"{HIDDEN} → {HIDDEN} in ", f"{HIDDEN}, curl → {HIDDEN}, Wget in "}),
    ):
        if masked:
            act_as(monkeypatch, VIEWER)
        person = open_page("person", q="eve")
        assert {text.value[: text.value.index(" in ") + 4] for text in person.text if " → " in text.value} == words


def test_a_kick_dialog_tells_two_sessions_apart_by_place_flags_and_last_activity(
    app: AppTest, crowd: None, placed: None
) -> None:
    press(app.run(), "kick", table(app).data["rows"][0]["ref"])
    texts_of_dialog = [text.value for text in app.text]
    assert {"<b>東京</b> **x** [y](z), JP", texts.FLAG_DISTANT} <= set(texts_of_dialog)
    assert texts.LABEL_LAST_ACTIVE in [caption.value for caption in app.caption]
    next(button for button in app.button if button.label == texts.CANCEL).click().run()
    tick(app, 0, 1)
    app.button(key="kick-selected").click().run()
    assert cells(app, texts.LABEL_DEVICE) == [f"laptop{texts.FLAG_DISTANT_SHORT}", "phone"]
    assert cells(app, texts.LABEL_IP) == [f"{TOKYO}<b>東京</b> **x** [y](z), JP", f"{LYON}Lyon, FR"]
    assert len(cells(app, texts.LABEL_LAST_ACTIVE)) == 2
    next(button for button in app.button if button.label == texts.CANCEL).click().run()
    open_for_timeouts = open_page("person", q="eve")
    click(open_for_timeouts, "timeouts-all")
    laptop, phone = cells(open_for_timeouts, texts.LABEL_DEVICE)
    assert laptop == f"laptop{texts.FLAG_DISTANT_SHORT}{TOKYO}<b>東京</b> **x** [y](z), JP"
    assert phone == f"phone{LYON}Lyon, FR"


def test_without_places_there_are_no_filters_by_place(app: AppTest, crowd: None) -> None:
    app.session_state["menu-filters"] = True
    app.run()
    assert "**Device**" in [shown.value for shown in app.markdown]
    assert not {"**Country**", "**Provider**"} & {shown.value for shown in app.markdown}


def test_a_role_that_may_not_see_addresses_sees_no_place(
    app: AppTest, crowd: None, placed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    act_as(monkeypatch, VIEWER)
    app.session_state["menu-filters"] = True
    app.run().multiselect(key="columns").set_value(["device", "place", "network"]).run()
    assert set(table(app).column("place")) == set(table(app).column("network")) == {HIDDEN}
    assert "choose-country-FR" not in {button.key for button in app.button}
    app.query_params["country"] = "FR"
    assert texts.link_unknown("`country`") in shown(app.run())


def test_clearing_takes_back_all_that_was_asked(app: AppTest, crowd: None) -> None:
    app.query_params.update({"q": "dan", "device": "iPhone", "login": "today", "idle": "300", "flag": "new_device"})
    app.run()
    app.button(key="clear").click().run()
    assert len(uids(app)) == 4
    assert not {"q", "device", "login", "idle", "flag"} & set(app.query_params)
    assert app.text_input(key="q").value == ""


def test_a_declared_attribute_is_a_filter_and_a_column(
    app: AppTest, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_FACETS", "plan")
    with Presence.from_url(server.url, Settings(timeout=0.5, facets=("plan",))) as presence:
        presence.login("u1", attributes={"plan": "pro"})
        presence.login("u2", attributes={"plan": "free"})
        app.query_params["attr.plan"] = "pro"
        assert uids(app.run()) == ["u1"]
        app.multiselect(key="columns").set_value(["uid", "attr.plan"]).run()
        assert table(app).column("attr.plan") == ["pro"]


@pytest.mark.parametrize(
    ("link", "rule"),
    [
        ({"version": "9.9.9"}, texts.link_unknown("`version`")),
        ({"app_version": "x" * 65}, texts.link_value("`app_version`", "")),
        ({"attr.plan": "pro"}, texts.link_unknown("`attr.plan`")),
        ({"colour": ""}, texts.link_unknown("`colour`")),
        ({"device": ""}, texts.link_empty("`device`")),
        ({"device": ["Mac", "iPhone"]}, texts.link_twice("`device`")),
        ({"idle": "-1"}, texts.link_value("`idle`", texts.idle_malformed(session_query.MAX_IDLE))),
        ({"idle": "12x"}, "`idle` cannot have this value. Use whole seconds"),
        ({"seen": "0"}, texts.link_value("`seen`", texts.seen_malformed(session_query.MAX_IDLE))),
        ({"seen": "5m"}, texts.link_value("`seen`", texts.seen_malformed(session_query.MAX_IDLE))),
        ({"method": "Pass word"}, texts.link_value("`method`", texts.METHOD_MALFORMED)),
        ({"method": ","}, texts.link_value("`method`", texts.METHOD_MALFORMED)),
        ({"mfa": "true"}, texts.link_value("`mfa`", texts.MFA_MALFORMED)),
        ({"below": "beta"}, texts.link_value("`below`", texts.VERSION_MALFORMED)),
        ({"login": "tomorrow"}, texts.link_value("`login`", texts.TIME_MALFORMED)),
        ({"login": "2026-01-31T12:00.."}, "`login` cannot have this value."),
        ({"login": "0001-01-01T00:00+14:00.."}, "`login` cannot have this value."),  # not a year in any time zone
        ({"login": "..9999-12-31T23:59-12:00"}, "`login` cannot have this value."),
        ({"login": "2026-02-01T12:00Z..2026-01-31T12:00Z"}, texts.TIME_BACKWARDS),
        ({"device": "x" * 65}, texts.link_value("`device`", "")),
        ({"flag": "odd"}, texts.link_value("`flag`", texts.flag_malformed(", ".join(session_query.FLAGS)))),
        ({"sort": "name"}, texts.link_value("`sort`", texts.SORT_MALFORMED)),
        ({"inside": "ordan"}, texts.link_value("`inside`", texts.LINK_INSIDE)),
    ],
)
def test_an_invalid_link_is_refused_in_words_and_lists_no_one(
    app: AppTest, crowd: None, link: dict[str, str | list[str]], rule: str
) -> None:
    app.query_params.update(link)
    app.run()
    assert titles(app) == [texts.LINK_TITLE]
    assert rule in shown(app)
    assert not tables(app)
    assert not {"kick-all", "kick-selected", "export"} & {button.key for button in app.button}
    app.button(key="link-show-all").click().run()
    assert len(uids(app)) == 4
    assert not set(link) & set(app.query_params)


def test_what_is_wrong_with_a_link_can_be_removed_and_the_rest_of_it_stays(app: AppTest, crowd: None) -> None:
    app.query_params.update({"q": "dan", "device": "iPhone", "version": "9.9.9", "idle": "x"})
    app.run()
    assert titles(app) == [texts.LINK_TITLE]
    app.button(key="link-remove").click().run()
    assert uids(app) == ["dan@example.com", "u1"]
    assert set(app.query_params) == {"q", "device"}


def test_a_list_that_was_there_goes_when_the_link_becomes_one_that_makes_no_sense(app: AppTest, crowd: None) -> None:
    app.run()
    app.query_params["version"] = "9.9.9"
    app.run()
    assert not tables(app)
    assert "List as of" not in shown(app)


def test_a_link_to_an_invalid_address_block_lists_no_one(app: AppTest, crowd: None) -> None:
    app.query_params["q"] = "192.0.2.0/99"
    app.run()
    assert [warning.value for warning in app.warning] == [texts.ERROR_FIELD["ip"][""]]
    assert not tables(app)
    assert uids(search(app, "192.0.2.0/9")) == ["u2", "u1"]


def test_a_range_of_login_times_that_ends_before_it_begins_is_not_taken(app: AppTest, crowd: None) -> None:
    app.session_state["menu-filters"] = True
    app.run()
    app.session_state["login-from"], app.session_state["login-to"] = NOW, NOW - timedelta(days=1)
    next(button for button in app.button if button.label == texts.TIME_APPLY).click().run()
    assert [warning.value for warning in app.warning] == [texts.TIME_BACKWARDS]
    assert "login" not in app.query_params
    assert len(uids(app)) == 4


@pytest.mark.parametrize(
    ("query", "after", "before"),
    [
        (SessionQuery(login="1h"), NOW - timedelta(hours=1), None),
        (SessionQuery(login="7d"), NOW - timedelta(days=7), None),
        (SessionQuery(login="today"), datetime(2026, 2, 28, 15, tzinfo=UTC), None),
        (SessionQuery(login="yesterday"), datetime(2026, 2, 27, 15, tzinfo=UTC), datetime(2026, 2, 28, 15, tzinfo=UTC)),
        (SessionQuery(login="since-08:00"), datetime(2026, 2, 28, 23, tzinfo=UTC), None),
        (SessionQuery(login="since-22:00"), datetime(2026, 2, 28, 13, tzinfo=UTC), None),
        (SessionQuery(login="2026-02-28T10:00Z.."), datetime(2026, 2, 28, 10, tzinfo=UTC), None),
        (SessionQuery(login="..2026-02-28T10:00Z"), None, datetime(2026, 2, 28, 10, tzinfo=UTC)),
    ],
)
def test_login_times_are_those_of_the_reader(query: SessionQuery, after: datetime, before: datetime) -> None:
    asked = query.filter(NOW, ZoneInfo("Asia/Tokyo"))  # where it is 21:30, midnight was at 15:00 UTC
    assert asked is not None
    assert (asked.logged_in_after, asked.logged_in_before) == (after, before)


@pytest.mark.parametrize(("hours", "ago"), [(1.25, 0.75), (3, 1.5), (23, 21.5)])
def test_since_a_time_of_day_is_the_last_time_that_a_clock_showed_it(hours: float, ago: float) -> None:
    """Summer time ends at 01:00 UTC, so a clock in Berlin shows 02:30 at 00:30 and at 01:30."""
    now = datetime(2026, 10, 25, tzinfo=UTC) + timedelta(hours=hours)
    since, _ = time_range.resolve("since-02:30", now, ZoneInfo("Europe/Berlin"))
    assert since is not None
    assert now - since.astimezone(UTC) == timedelta(hours=ago)


def test_a_range_of_times_comes_back_from_its_link() -> None:
    after, before = NOW - timedelta(days=2), NOW
    assert time_range.parse_range(time_range.format_range(after, before)) == (after, before)
    assert time_range.parse_range(time_range.format_range(None, before)) == (None, before)
    for wrong in ("..", "1969-12-31T12:00Z..", "..9998-01-01T00:00Z"):  # the library has no such times
        with pytest.raises(InvalidArgument, match=r"^time must be"):
            time_range.parse_range(wrong)


# -- Who may see what --------------------------------------------------------------------------------------------------


def test_a_masked_viewer_sees_dots_and_finds_whole_user_ids_only(
    app: AppTest, crowd: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    act_as(monkeypatch, VIEWER)
    app.run()
    app.multiselect(key="columns").set_value(["ip", "last_ip", "aliases", "email", "uid"]).run()
    rows = table(app)
    assert {cell for name in ("name", "ip", "last_ip", "aliases", "email") for cell in rows.column(name)} == {"•••"}
    assert {row["label"] for row in rows.data["rows"]} == {"•••"}
    for probe in ("Dana", "u", "192.0.2.7", "192.0.2.0/24"):
        assert titles(search(app, probe)) == [texts.NO_MATCH_TITLE], probe
    assert texts.NO_MATCH_MASKED in shown(app)
    app.query_params["inside"] = "Dana"
    assert titles(search(app, "Dana")) == [texts.NO_MATCH_TITLE]
    assert uids(search(app, "u1")) == ["u1"]


@pytest.mark.parametrize(
    "pasted",
    ["u1 ", '"u1",', "u\u200b1", "uid=u1", "<u1>", "u1:2Yx0Gq1VbX4m8fJcD9kQwA", "https://presence.example/?q=u1"],
)
def test_a_masked_viewer_finds_a_user_id_that_was_pasted(
    app: AppTest, crowd: None, monkeypatch: pytest.MonkeyPatch, pasted: str
) -> None:
    act_as(monkeypatch, VIEWER)
    assert uids(search(app.run(), pasted)) == ["u1"]
    assert titles(search(app, '"Dana"')) == [texts.NO_MATCH_TITLE], "names are still not searched"


def test_a_masked_viewer_finds_a_user_id_exactly_as_it_is(
    app: AppTest, presence: Presence, crowd: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence.login('"u1"')
    act_as(monkeypatch, VIEWER)
    assert uids(search(app.run(), '"u1"')) == ['"u1"']


def test_who_may_not_kick_has_neither_buttons_nor_boxes(
    app: AppTest, crowd: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    act_as(monkeypatch, Actor("vera", "viewer"))
    app.run()
    assert len(uids(app)) == 4
    assert not table(app).data["canKick"]
    assert not {"kick-selected", "kick-person", "kick-all", "select-none", "export"} & {
        button.key for button in app.button
    }


# -- Rare matches ------------------------------------------------------------------------------------------------------


def test_where_matches_are_rare_the_page_says_how_far_it_looked_and_goes_on(
    app: AppTest, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("presence_core.operations.search.list_sessions.BUDGET", 20)
    monkeypatch.setattr("presence_core.operations.search.shard_merge.STEP", 20)
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        people = [{"uid": f"u{number:03}", "attributes": {"rare": number == 0}} for number in range(600)]
        presence.login_many(people)
        presence.login("newest", attributes={"rare": True})
    monkeypatch.setenv("PRESENCE_FACETS", "rare")
    app.query_params["attr.rare"] = "true"
    assert uids(app.run()) == ["newest"]
    assert "Few sessions match" in shown(app)
    app.button(key="go-on").click().run()
    assert uids(app) == ["newest", "u000"]
    assert not [button for button in app.button if button.key == "go-on"]


def test_columns_are_those_that_were_chosen(app: AppTest, crowd: None) -> None:
    app.run()
    assert table(app).columns == ["name", *table_columns.AT_FIRST]
    app.multiselect(key="columns").set_value(["ip", "aliases"]).run()
    assert table(app).columns == ["name", "ip", "aliases"]
    assert "iPhone" not in json.dumps(table(app).data), "and no other is sent"
    app.multiselect(key="columns").set_value([]).run()
    assert "uid" in table(app).columns
