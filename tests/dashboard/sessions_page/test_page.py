"""The Sessions page without a browser: its script under AppTest, on a real server, and its helpers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from presence_core import OutcomeUnknown, Presence, Settings, Unavailable
from presence_core.operations.mirror import reports
from presence_dashboard import access, texts
from presence_dashboard import format as fmt
from presence_dashboard.actions.kick_and_block import ActionDetails, kick_person, kick_refs
from presence_dashboard.data import session_list
from presence_dashboard.data import store as store_room
from presence_dashboard.data.browser_tab import TICK_AWAY
from presence_dashboard.data.store import Store, open_store
from presence_dashboard.roles import Actor
from tests.dashboard.conftest import (
    cells,
    click,
    confirm,
    log_in,
    open_again,
    pick_row,
    press,
    refs,
    table,
    tables,
    tick,
    toasts,
    uids,
)
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server

HOSTILE = [
    "<script>alert(1)</script>",
    ":red[x]",
    "![](http://example.invalid/x.png)",
    "[a](javascript:alert(1))",
    "$x$ and $y$",
    ":smile: :material/home:",
    "www.example.invalid",
    "`tick``s`",
    "**b** _i_ -- ->",
    "# h",
]
WHY = ActionDetails("Shared account", "Please sign in again.")


# -- The list ----------------------------------------------------------------------------------------------------------


def test_sessions_are_listed_newest_login_first(app: AppTest, presence: Presence) -> None:
    log_in(presence, 3)
    app.run()
    assert uids(app) == ["user02", "user01", "user00"]
    assert texts.online_now("3", "3") in [text.value for text in app.markdown]


@pytest.mark.parametrize(
    ("values", "sentences"),
    [
        ({"behind": 7.5}, ["Mirrored from the site (`shop :red[x]`)", "A kick also ends the session at the site"]),
        ({"problem": "away"}, ["The site’s sessions (`shop :red[x]`) cannot be read", "Kicks wait"]),
        ({"stopped": True}, ["The mirror of the site’s sessions (`shop :red[x]`) stopped", "as they were then"]),
    ],
    ids=["mirrored", "waits", "stopped"],
)
def test_the_pages_say_that_sessions_are_mirrored_how_far_behind_and_what_a_kick_does(
    app: AppTest, presence: Presence, values: dict[str, Any], sentences: list[str]
) -> None:
    given = {
        "store": "shop :red[x]", "hears": "scans", "behind": 0.2, "sessions": 1, "without_user": 0, "skipped": 0,
        "waiting": 0, "problem": "",
    }  # fmt: skip
    presence.internal.run(reports.report(presence.internal.context, "shop", given | values))
    presence.login("ada")
    app.run()
    for page in ("sessions/sessions", "live/live", "person/person"):
        app.query_params["q"] = "ada"
        app.switch_page(f"views/{page}.py").run()
        shown = [element.value for element in (*app.caption, *app.warning)]
        assert any(all(sentence in text for sentence in sentences) for text in shown), (page, shown)


def test_a_person_without_a_name_is_listed_by_uid(app: AppTest, presence: Presence) -> None:
    presence.login("dana@example.com")
    assert table(app.run()).column("name") == ["dana@example.com"]


def test_pages_follow_each_other_and_lead_back(app: AppTest, presence: Presence) -> None:
    log_in(presence, 60)
    app.run()
    app.selectbox(key="page-size").select(25).run()
    seen = uids(app)
    for _ in range(2):
        app.button(key="older").click().run()
        seen += uids(app)
    assert seen == [f"user{number:02}" for number in reversed(range(60))]
    assert texts.place("51", "60", "60", 3) in [text.value for text in app.markdown]
    assert app.button(key="older").disabled
    app.button(key="newer").click().run()
    assert uids(app)[0] == "user34"
    app.button(key="newest").click().run()
    assert uids(app)[0] == "user59"
    assert app.button(key="newer").disabled


def seen_later(presence: Presence, number: int, ages: dict[int, float]) -> None:
    """Log in users in their order. None was seen since, but for those who were seen so many seconds ago."""
    now = time.time()
    rows = [
        {"uid": f"user{n:02}", "login_at": now - 600 + n, "last_seen": now - ages.get(n, 600 - n)}
        for n in range(number)
    ]
    presence.login_many(rows, imported=True)


def test_the_head_of_last_active_sorts_the_whole_list_and_paging_follows(app: AppTest, presence: Presence) -> None:
    seen_later(presence, 60, {3: 20, 0: 10})  # on the last page by login
    app.run()
    app.selectbox(key="page-size").select(25).run()
    assert table(app).data["order"] == {"name": "login", "descending": True}
    assert [column["name"] for column in table(app).data["columns"] if column["sortsAll"]] == ["login", "seen"]
    app.button(key="older").click().run()
    tick(app, 0)
    press(app, "order", "seen")
    assert "last_seen" in app.query_params["sort"]
    assert table(app).data["order"] == {"name": "seen", "descending": True}
    assert table(app).data["caption"] == texts.TABLE_LABEL_LAST_ACTIVE
    assert app.button(key="newest").disabled, "page 1"
    assert texts.kick_selected(1) in [button.label for button in app.button], "the same sessions match"
    shown = uids(app)
    while not app.button(key="older").disabled:
        app.button(key="older").click().run()
        shown += uids(app)
    rest = [f"user{number:02}" for number in reversed(range(60)) if number not in (0, 3)]
    assert shown == ["user00", "user03", *rest]
    press(app, "order", "login")
    assert "sort" not in app.query_params
    assert uids(app)[0] == "user59"
    press(app, "order", "device")
    assert uids(app)[0] == "user59", "no order of the list"


def test_a_link_has_the_order_and_a_filter_keeps_it(app: AppTest, presence: Presence) -> None:
    seen_later(presence, 4, {1: 10})
    app.query_params.update({"sort": "last_seen", "q": "user"})
    app.run()
    assert uids(app)[0] == "user01"
    app.button(key="clear").click().run()
    assert (uids(app)[0], "last_seen" in app.query_params["sort"]) == ("user01", True)


def test_a_page_that_everybody_has_left_gives_way_to_the_one_before(app: AppTest, presence: Presence) -> None:
    logins = log_in(presence, 30)
    app.run()
    app.selectbox(key="page-size").select(25).run()
    app.button(key="older").click().run()
    assert len(uids(app)) == 5
    for login in logins[:5]:
        presence.kick(login.session.uid, by="other", reason="test")
    app.button(key="refresh").click().run()
    assert len(uids(app)) == 25


def test_rows_stay_until_asked_for_and_newer_logins_are_announced(app: AppTest, presence: Presence) -> None:
    log_in(presence, 2)
    app.run()
    log_in(presence, 3, "late")
    open_again(app)
    assert len(uids(app)) == 2
    assert app.button(key="refresh").label == texts.newer(3, "3")
    app.button(key="refresh").click().run()
    assert len(uids(app)) == 5
    assert app.button(key="refresh").label == texts.REFRESH


def test_an_empty_list_says_what_to_do_and_fills_automatically(app: AppTest, presence: Presence) -> None:
    app.run()
    assert [header.value for header in app.subheader] == [texts.EMPTY_TITLE]
    assert not tables(app)
    log_in(presence, 1)
    open_again(app)
    assert uids(app) == ["user00"]


def test_the_page_says_who_acts_and_that_the_data_is_a_demo(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert texts.open_notice("**local operator**") in [text.value for text in app.run().markdown]
    assert not any(texts.DEMO in text.value for text in app.markdown)
    monkeypatch.setenv("PRESENCE_DEMO", "1")
    monkeypatch.setenv("PRESENCE_DEMO_SITE", "http://127.0.0.1:8600/")
    assert texts.demo_notice("http://127.0.0.1:8600/") in [text.value for text in app.run().markdown]


# -- Kicking -----------------------------------------------------------------------------------------------------------


def test_kicking_ticked_rows_ends_those_sessions_and_no_other(app: AppTest, presence: Presence) -> None:
    logins = log_in(presence, 4)
    tick(app.run(), 0, 2)
    app.button(key="kick-selected").click().run()
    assert cells(app, texts.LABEL_UID) == ["user03", "user01"]
    confirm(app)
    assert "Kicked 2 sessions of **Person 3** and 1 other." in toasts(app)
    assert [bool(presence.validate(login.token)) for login in logins] == [True, False, True, False]
    assert uids(app) == ["user02", "user00"]


def test_the_button_of_a_row_asks_about_that_session_and_k_about_the_ticked_ones(
    app: AppTest, presence: Presence
) -> None:
    log_in(presence, 3)
    press(app.run(), "kick", table(app).ref("user01"))
    assert "user01" in [text.value for text in app.text]
    next(button for button in app.button if button.label == texts.CANCEL).click().run()
    press(app, "kick", None)
    assert texts.ROW_GONE in toasts(app)
    press(tick(app, 0, 2), "kick", None)
    assert cells(app, texts.LABEL_UID) == ["user02", "user00"]


def test_a_kick_that_no_replica_has_confirmed_says_so(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_CONFIRM_REPLICAS", "1")
    monkeypatch.setenv("PRESENCE_CONFIRM_TIMEOUT", "20")
    monkeypatch.setenv("PRESENCE_CONFIRM_HOLD", "0")
    [login] = log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    confirm(app)
    assert not presence.validate(login.token)
    assert texts.UNCONFIRMED in toasts(app)


def test_where_a_failover_may_undo_a_kick_that_no_replica_was_asked_for_the_toast_says_so(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 2)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    confirm(app)
    assert texts.NO_REPLICA_ASKED not in toasts(app), "a single server"
    monkeypatch.setattr(Presence, "may_fail_over", True)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    confirm(app)
    assert texts.NO_REPLICA_ASKED in toasts(app)


def test_a_kick_needs_a_reason(app: AppTest, presence: Presence) -> None:
    [login] = log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    confirm(app, reason="   ")
    assert [warning.value for warning in app.warning] == [texts.REASON_MISSING]
    assert presence.validate(login.token)


def test_a_saved_phrase_fills_reason_and_message(app: AppTest, presence: Presence) -> None:
    [login] = log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    app.button_group(key="phrase-1").set_value("Lost device").run()
    reason, message = texts.PHRASES["Lost device"]
    assert [area.value for area in app.text_area] == [reason, message]
    confirm(app, reason)
    ended = presence.validate(login.token).ended
    assert ended is not None
    assert (ended.note, ended.message, ended.by) == (reason, message, "local operator")


def test_a_phrase_is_added_once_and_never_replaces_what_was_typed(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    app.text_area(key="reason-1").set_value("Chargeback 4711")
    app.button_group(key="phrase-1").set_value("Lost device").run()
    (lost, lost_public), (asked, asked_public) = texts.PHRASES["Lost device"], texts.PHRASES["User asked"]
    assert [area.value for area in app.text_area] == [f"Chargeback 4711 {lost}", lost_public]
    app.button_group(key="phrase-1").set_value("User asked").run()
    both = [f"Chargeback 4711 {lost} {asked}", f"{lost_public} {asked_public}"]
    assert [area.value for area in app.text_area] == both
    app.button_group(key="phrase-1").set_value("Lost device").run()
    assert [area.value for area in app.text_area] == both
    app.text_area(key="message-1").set_value("x" * 480).run()
    app.button_group(key="phrase-1").set_value("Suspicious sign-in").run()
    assert app.text_area(key="message-1").value == "x" * 480
    assert texts.PHRASE_TOO_LONG in toasts(app)


def test_cancelling_kicks_no_one(app: AppTest, presence: Presence) -> None:
    [login] = log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    next(element for element in app.button if element.label == texts.CANCEL).click().run()
    assert not app.text_area
    assert presence.validate(login.token)


def test_the_dialog_keeps_its_people_while_rows_change(app: AppTest, presence: Presence) -> None:
    logins = log_in(presence, 3)
    tick(app.run(), 1)
    app.button(key="kick-selected").click().run()
    log_in(presence, 30, "late")
    app.session_state["session-list"].refresh()
    confirm(app.run())
    assert [bool(presence.validate(login.token)) for login in logins] == [True, False, True]


def test_kicking_all_of_a_user_reads_what_they_have_now_and_can_keep_one(app: AppTest, presence: Presence) -> None:
    first, second = presence.login("dana", device="iPhone"), presence.login("dana", device="Mac")
    log_in(presence, 1)
    shown = app.run().session_state["session-list"].rows.sessions
    tick(app, shown.index(second.session))
    third = presence.login("dana", device="iPad")
    app.button(key="kick-person").click().run()
    assert len(cells(app, texts.LABEL_UID)) == 3
    app.checkbox[0].check().run()
    confirm(app)
    assert "Kicked 2 sessions of **dana**." in toasts(app)
    assert [bool(presence.validate(login.token)) for login in (first, second, third)] == [False, True, False]


def test_the_second_to_kick_sees_who_was_first(app: AppTest, presence: Presence) -> None:
    [login] = log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    presence.kick(login.session.uid, by="alex", reason="test")
    confirm(app)
    assert "Already ended: **Person 0** (**Mac**) – kicked by **alex** at" in toasts(app)


def test_an_open_dialog_says_that_its_session_has_ended_meanwhile(app: AppTest, presence: Presence) -> None:
    first, second = log_in(presence, 2)
    tick(app.run(), 0, 1)
    app.button(key="kick-selected").click().run()
    assert not app.info
    presence.kick(first.session.uid, by="alex", reason="test")
    [note] = open_again(app).info
    assert note.value.startswith("Already ended: **Person 0** (**Mac**) – kicked by **alex** at")
    presence.erase(second.session.uid, by="alex", reason="test")
    notes = [note.value for note in open_again(app).info]
    assert notes[1:] == ["One session had already ended. The end reason is no longer stored."]
    assert app.text_area, "it stays open, and may still block"


# -- Redis away --------------------------------------------------------------------------------------------------------


def test_an_outage_keeps_the_rows_and_turns_actions_off_until_redis_is_back(
    app: AppTest, server: Server, presence: Presence
) -> None:
    log_in(presence, 2)
    tick(app.run(), 0)
    server.pause()
    open_again(app)
    assert "**Sessions cannot be read at the moment.**" in app.warning[0].value
    assert uids(app) == ["user01", "user00"]
    assert app.button(key="kick-selected").disabled
    assert not table(app).data["canAct"]
    server.resume()
    open_again(app)
    assert not app.warning
    assert not app.button(key="kick-selected").disabled
    assert table(app).data["canAct"]


def test_an_open_dialog_says_why_its_button_is_off_while_redis_is_away(
    app: AppTest, server: Server, presence: Presence
) -> None:
    log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    server.pause()
    open_again(app)
    assert app.button(key="danger-1").disabled
    assert [note.value for note in app.info] == [texts.AWAY_HINT]
    server.resume()
    open_again(app)
    assert not app.info


def test_a_page_that_opens_in_an_outage_fills_when_redis_is_back(app: AppTest, server: Server) -> None:
    server.pause()
    app.run()
    assert "No data has been read yet" in app.warning[0].value
    assert not app.exception
    server.resume()
    open_again(app)
    assert [header.value for header in app.subheader] == [texts.EMPTY_TITLE]


def test_staff_who_cannot_be_identified_while_redis_is_away_wait_and_are_let_in(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 2)
    known, ticks = access._actor, []

    def unknown(**_: bool) -> Actor:
        raise Unavailable("Redis is away")

    def fragment(part: Callable[[], None], run_every: float | None = None) -> Callable[[], None]:
        ticks.append((part, run_every))
        return part

    monkeypatch.setattr(access, "_actor", unknown)
    with monkeypatch.context() as patch:
        patch.setattr(st, "fragment", fragment)
        app.run()
    assert not app.exception
    assert [header.value for header in app.subheader] == [texts.AWAY_TITLE]
    [(part, every)] = ticks
    assert every == TICK_AWAY
    reruns: list[bool] = []
    monkeypatch.setattr(st, "rerun", lambda: reruns.append(True))
    part()
    assert reruns == []
    monkeypatch.setattr(access, "_actor", known)
    part()
    assert reruns == [True]
    assert len(uids(app.run())) == 2


def test_a_kick_that_was_not_made_keeps_its_dialog_and_texts(app: AppTest, server: Server, presence: Presence) -> None:
    log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    server.kill()
    with pytest.raises(Unavailable):
        open_store().presence.counts()  # so that the kick meets no connection that seems to be open
    confirm(app, "Shared account")
    assert texts.not_kicked(1, f"{texts.ERROR_AWAY} {texts.TRY_LATER}") in [warning.value for warning in app.warning]
    assert [area.value for area in app.text_area if area.label == texts.REASON] == ["Shared account"]
    server.restart()
    log_in(presence, 1)
    open_again(app)
    assert texts.not_kicked(1, f"{texts.ERROR_AWAY} {texts.TRY_LATER}") in [warning.value for warning in app.warning]
    confirm(app, "Shared account")
    assert not [area for area in app.text_area if area.label == texts.REASON]


def test_a_kick_without_an_answer_says_so_and_is_looked_at_again(
    app: AppTest, server: Server, presence: Presence
) -> None:
    log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    server.pause()
    confirm(app)
    assert texts.outcome_unknown(1) in toasts(app)
    assert texts.unresolved(1) in [warning.value for warning in app.warning]
    server.resume()
    open_again(app)
    assert not app.warning
    messages = toasts(app)
    assert "kicked by **local operator**" in messages or "Not kicked: **user00**" in messages


def test_a_failure_is_shared_for_a_moment_and_not_longer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_room, "AWAY", 60.0)
    store = Store(lambda: Presence.from_url(server.url, Settings(timeout=PATIENT)))
    assert store.counts().failure is None
    server.pause()
    failed = store.counts(fresh=True)
    assert failed.failure is not None
    assert failed.value is not None
    server.resume()
    assert store.counts() is failed
    monkeypatch.setattr(store_room, "AWAY", 0.0)
    assert store.counts().failure is None
    store.close()


def test_an_action_stops_where_redis_is_away(server: Server, presence: Presence) -> None:
    logins = log_in(presence, 3)
    assert presence.counts().sessions == 3
    server.pause()
    outcome = kick_refs(presence, refs(*logins), WHY)
    assert (outcome.unanswered or outcome.not_kicked)[0] == logins[0].session.ref
    assert outcome.not_kicked[-2:] == tuple(refs(*logins[1:]))
    assert outcome.failure


@pytest.mark.parametrize("block", [0, 3_600])
def test_a_kick_without_an_answer_tells_of_the_block_that_came_with_it(
    presence: Presence, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    [login] = log_in(presence, 1)
    kick = Presence.kick

    def unheard(*args: Any, **more: Any) -> None:
        kick(*args, **more)
        raise OutcomeUnknown("no answer")

    monkeypatch.setattr(Presence, "kick", unheard)
    outcome = kick_refs(presence, refs(login), ActionDetails("Shared account", block=block))
    assert [session.ref for session in outcome.already] == refs(login)
    assert outcome.blocked == presence.blocked("user00") is not None


def test_a_session_that_must_sign_in_again_is_live_after_a_kick_without_a_reply(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = presence.login("dana")
    presence.require_sign_in("dana", by="alex", reason="odd login")

    def unanswered(*_: Any, **__: Any) -> None:
        raise OutcomeUnknown("no reply")

    monkeypatch.setattr(Presence, "kick", unanswered)
    outcome = kick_refs(presence, [login.session.ref], WHY)
    assert (outcome.still_live, outcome.ended_unknown) == ((login.session.ref,), ())


def test_a_kick_that_failed_behind_its_block_tells_of_the_block(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    [login] = log_in(presence, 1)

    def failed(*_: Any, **__: Any) -> None:
        raise Unavailable("away")

    monkeypatch.setattr(Presence, "kick", failed)
    assert kick_refs(presence, refs(login), ActionDetails("Shared account", block=3_600)).blocked is None
    outcome = kick_refs(presence, refs(login), ActionDetails("Shared account", block=0))
    assert outcome.not_kicked == tuple(refs(login))
    assert outcome.blocked == presence.blocked("user00") is not None


def test_kicking_all_tells_of_those_that_had_ended_before(presence: Presence) -> None:
    first, other = presence.login("dana:1"), presence.login("dana:1")
    presence.kick("dana:1", first.session.session_id, by="alex", reason="test")
    outcome = kick_person(presence, "dana:1", refs(first, other), WHY)
    assert [session.ref for session in outcome.kicked] == refs(other)
    assert [ended.by for ended in outcome.already] == ["alex"]


# -- Text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_is_text_in_table_button_and_toast(app: AppTest, presence: Presence, hostile: str) -> None:
    presence.login("mallory", name=hostile, device=hostile[:16])
    tick(app.run(), 0)
    assert table(app).column("name") == [hostile]
    assert app.button(key="kick-person").label == texts.kick_all_of(fmt.code(fmt.cut(hostile, 32)))
    app.button(key="kick-selected").click().run()
    assert hostile in [text.value for text in app.text]
    confirm(app)
    assert fmt.code(hostile) in toasts(app)


def test_controls_that_turn_the_reading_order_are_named() -> None:
    assert fmt.literal("\u202enimda") == "‹U+202E›nimda"
    assert fmt.literal("a\u200bb") == "a‹U+200B›b"
    assert fmt.isolated("שלום") == "\u2068שלום\u2069"
    assert fmt.literal("👩‍💻 Zoë") == "👩‍💻 Zoë"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zoë O'Neil-Smith Jr. X", "**Zoë O'Neil-Smith Jr. X**"),
        ("a `b` ``c``", "``` a `b` ``c`` ```"),
        ("www.example.invalid", "`www.example.invalid`"),
        ("dana@example.com", "`dana@example.com`"),
        ("a -- b", "`a -- b`"),
        ("", "``"),
    ],
)
def test_tame_names_are_bold_and_others_are_code(text: str, shown: str) -> None:
    assert fmt.name(text) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.1 s"),
        (1.23, "1.2 s"),
        (9.97, "10 s"),
        (119, "119 s"),
        (180, "3 min"),
        (7_500, "2 h 5 min"),
        (86_400, "1 d"),
    ],
)
def test_lengths_of_time_are_short(seconds: float, shown: str) -> None:
    assert fmt.span(seconds) == shown


def test_a_row_shows_its_session_with_its_actions_until_it_is_closed_or_has_ended(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_list, "KEEP", 0)
    logins = log_in(presence, 3)
    pick_row(app.run(), 1)
    shown, uid = table(app).data, uids(app)[1]
    assert shown["picked"] == shown["rows"][1]["ref"]
    session = next(login.session for login in logins if login.session.uid == uid)
    keys = {button.key for button in app.button}
    assert {f"{act}-{session.session_id}" for act in ("kick", "keep", "sign-in", "timeouts")} <= keys
    click(app, "close-details")
    assert table(app).data["picked"] is None
    assert "open-person" not in {button.key for button in app.button}

    pick_row(app, 1)
    presence.kick(uid, by="alex", reason="test")
    app.run()
    assert "open-person" not in {button.key for button in app.button}, "an ended session has no action"
    pick_row(app, 0)
    click(app, "open-person")
    assert [header.value for header in app.header] == [f"**Person {int(shown['rows'][0]['ref'][4:6])}**"]
