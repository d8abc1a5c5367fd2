"""The Person page without a browser, on a real server, and its timeline."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from presence_core import AuditEntry, AuditFact, Ended, Login, NoticeAnswer, Person, Place, Presence, Settings
from presence_dashboard import format as fmt
from presence_dashboard import texts
from presence_dashboard.data import person_state
from presence_dashboard.data.person_state import current_state, find
from presence_dashboard.data.person_timeline import TimelineEvent, by_day, merge
from presence_dashboard.data.store import open_store
from presence_dashboard.roles import HIDDEN
from presence_dashboard.views.person import session_cards
from tests.dashboard.conftest import (
    click,
    confirm,
    open_again,
    open_page,
    pick_row,
    press,
    table,
    tables,
    toasts,
    use_old_token,
)
from tests.support.fair_clock import PATIENT
from tests.support.place_file import write_place_file
from tests.support.servers import Server

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
HOSTILE = "<script>alert(1)</script> **b** $x$ and $y$ :red[z] [a](javascript:alert(1)) \u202enimda"


def look_for(app: AppTest, wanted: str) -> AppTest:
    """Open the page by its address or, if it is open, by its search box."""
    if "q" in app.session_state:
        app.text_input(key="q").set_value(wanted).run()
    else:
        app.query_params["q"] = wanted
        app.switch_page("views/person/person.py").run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    """All texts of the page, without buttons."""
    elements = (
        *app.markdown,
        *app.text,
        *app.header,
        *app.subheader,
        *app.caption,
        *app.code,
        *app.error,
        *app.warning,
        *app.info,
    )
    return "\n".join(str(element.value) for element in elements)


def keys(app: AppTest) -> list[str]:
    return [button.key or "" for button in app.button]


def cards_of(app: AppTest) -> list[str]:
    return [key.removeprefix("kick-") for key in keys(app) if key.startswith("kick-") and key != "kick-all"]


def has_box(app: AppTest, key: str) -> bool:
    """Whether the page has a container with this key."""

    def is_in(block: Block) -> bool:
        return key in str(block.proto) or any(is_in(b) for b in block.children.values() if isinstance(b, Block))

    return is_in(app.main)


def look_again(uid: str) -> None:
    """As after a refresh: cached data of a person are no longer used."""
    current_state(open_store(), uid, fresh=True)


def timeline_of(presence: Presence, uid: str) -> list[TimelineEvent]:
    return merge(presence.sessions(uid), presence.ended(uid), presence.audit(uid=uid))


def test_a_person_whom_the_identity_provider_has_signed_out(app: AppTest, presence: Presence) -> None:
    okta, now = "https://acme.okta.example", time.time()
    for sid in ("sid-1", "sid-2"):
        presence.login("u1", device=f"Phone {sid}", idp={"iss": okta, "sub": "00u1", "sid": sid}, expires_at=now + 900)
    presence.provider_logout(okta, session="sid-1", by="Okta", issued_at=now)
    look_for(app, "u1")
    ended = "Ended by the identity provider (**Okta**): **Phone sid-1**"
    assert said(app).count(ended) == 1, "end and audit entry are one event"
    assert okta in said(app)
    assert texts.LABEL_SIGNED_IN_AT in said(app)
    [event] = [event for event in timeline_of(presence, "u1") if event.entry]
    assert (event.kind, event.entry and event.entry.by) == ("end", "Okta")


# -- The timeline ------------------------------------------------------------------------------------------------------


def test_a_kick_that_ends_and_audit_both_tell_of_is_there_once(presence: Presence) -> None:
    logins = [presence.login("dana", device=f"Device {number}") for number in range(3)]
    presence.kick("dana", logins[0].session.session_id, by="alex", reason="one")
    presence.kick("dana", by="robin", reason="all", block_for=60)
    presence.kick("dana", by="robin", reason="none left")
    happened = timeline_of(presence, "dana")
    assert [event.kind for event in happened] == ["staff", "end", "end", "login", "login", "login"]
    nothing, both, single = happened[:3]
    assert nothing.entry is not None
    assert nothing.entry.outcome == "no session to end"
    assert {record.session_id for record in both.records} == {login.session.session_id for login in logins[1:]}
    assert both.entry is not None
    assert both.entry.outcome.startswith("2 sessions ended, blocked until")
    assert [record.session_id for record in single.records] == [logins[0].session.session_id]
    assert single.kinds == {"end", "staff"}


def test_the_timeline_holds_logins_ends_blocks_and_denied_attempts_newest_first(presence: Presence) -> None:
    login = presence.login("dana")
    presence.logout("dana", login.session.session_id)
    presence.block("dana", by="alex", reason="test")
    presence.unblock("dana", by="alex", reason="test")
    presence.denied(by="vera", what="kick", uid="dana")
    presence.login("dana")
    happened = timeline_of(presence, "dana")
    assert [event.at for event in happened] == sorted((event.at for event in happened), reverse=True)
    assert {event.entry.action for event in happened if event.entry} == {"block", "unblock", "denied"}
    [end] = [event for event in happened if event.kind == "end"]
    assert isinstance(end.records[0], Ended)
    assert end.kinds == {"end"}
    [(_, whole_day)] = by_day(happened, happened[0].at.tzinfo)  # type: ignore[arg-type]
    assert whole_day == happened


# -- Finding -----------------------------------------------------------------------------------------------------------


def test_a_session_of_which_an_old_token_was_used_has_a_badge(app: AppTest, presence: Presence, server: Server) -> None:
    presence.login("u1", device="Mac", session_id="session-1")  # of one millisecond, the greater id is the newer
    use_old_token(server, presence.login("u1", device="iPhone", session_id="session-2").token)
    assert f"**iPhone** :gray-badge[{texts.PERSON_NEWEST}] :orange-badge[{texts.FLAG_OLD_TOKEN}]" in said(
        look_for(app, "u1")
    )
    assert said(app).count(texts.FLAG_OLD_TOKEN) == 1


def test_the_timeline_has_the_answers_to_notices(app: AppTest, presence: Presence) -> None:
    answers: dict[str, NoticeAnswer] = {"Mac": "me", "iPhone": "not_me"}
    for device, answer in answers.items():
        session = presence.login("u1", device=device).session
        until = time.time() + 60
        assert presence.answer_notice("u1", session.session_id, session.login_at, answer, until=until, block_for=60)
    page = said(look_for(app, "u1"))
    assert page.count(texts.happened_end("denied", device="**iPhone**")) == 1
    assert page.count(texts.HISTORY_ACTS["confirm_login"] + ": **Mac**") == 1
    assert "Kicked by" not in page
    assert page.count(f"by {texts.the_user('**u1**')}") == 3, "of the block, of the new sign-in, and on its card"


def test_a_link_opens_the_person_by_uid_or_email(app: AppTest, presence: Presence) -> None:
    presence.login("u1", name="Dana Novak", aliases=["dana@example.com"], device="Mac", ip="192.0.2.7")
    presence.login("u2", name="Dana Other", aliases=["dana@example.org"])
    for wanted in ("u1", "Dana@Example.com"):
        look_for(app, wanted)
        assert [header.value for header in app.header] == ["**Dana Novak**"]
        assert app.code[0].value == "u1"
        assert "192.0.2.7" in said(app)
        assert app.session_state["q"] == wanted


def test_a_person_whose_session_waits_for_a_sweep_is_shown_as_after_it(app: AppTest, presence: Presence) -> None:
    context = presence.internal.context
    context.now = str(round(time.time() * 1000) - 3_600_000)
    session = presence.login("u1", name="Dana Novak", aliases=["dana@example.com"], idle_timeout=60).session
    context.now = ""
    shown = []
    for _ in range(2):  # no worker runs here
        look_for(app, "dana@example.com")
        assert [header.value for header in app.header] == ["**Dana Novak**"]
        assert cards_of(app) == []
        state = app.session_state["person-state"]
        assert state.facts.person == Person("u1", "Dana Novak", session.aliases, False, session.last_seen, 0)
        assert [(end.session_id, end.reason, end.at) for end in state.facts.ended] == [
            (session.session_id, "expired", session.expires_at)
        ]
        shown.append(re.sub(r"\d\d:\d\d:\d\d, [\d.]+ s ago", "", said(app)))  # when the page was read
        presence.sweep()
        look_again("u1")
        app.run()
    assert shown[0] == shown[1]


def test_a_link_to_a_user_id_does_not_open_another_person_with_this_alias(app: AppTest, presence: Presence) -> None:
    presence.block("kim@example.com", by="sam", reason="Chargeback")  # a closed account, offline for a long time
    presence.login("u2", name="Kim Lee", aliases=["kim@example.com"])
    look_for(app, "kim@example.com")
    assert app.code[0].value == "kim@example.com"
    assert "Chargeback" in said(app)
    assert app.button(key="open-0").click().run().code[0].value == "u2", "who is one click away"


def test_a_uid_with_a_space_at_its_end_opens_that_person_and_not_the_one_without(
    app: AppTest, presence: Presence
) -> None:
    presence.login("ada", name="Ada")
    mallory = presence.login("ada ", name="Mallory")
    look_for(app, "ada ")
    assert [header.value for header in app.header] == ["**Mallory**"]
    presence.kick("ada ", mallory.session.session_id, by="sam", reason="test")
    look_for(app, " ada")
    assert [header.value for header in app.header] == ["**Ada**"]
    look_for(app, "ada ")
    assert [header.value for header in app.header] == ["**Mallory**"], "also while offline"
    history = open_page("history", person="ada ")
    assert table(history).column("uid") == ["ada "]


def test_a_name_lists_people_who_are_online_or_were_and_one_is_opened(app: AppTest, presence: Presence) -> None:
    presence.login("u1", name="Dana Novak")
    gone = presence.login("u2", name="Dana Other")
    presence.logout("u2", gone.session.session_id)
    look_for(app, "dana")
    assert texts.person_hits(2, True) in said(app)
    assert f"**Dana Novak** {texts.person_online('1 session')}" in said(app)
    assert "**Dana Other** :gray-badge[offline, last active" in said(app)
    app.button(key="open-1").click().run()
    assert [header.value for header in app.header] == ["**Dana Other**"]
    assert texts.PERSON_NO_SESSION in said(app)
    assert texts.happened_end("user", device=fmt.name(texts.PERSON_NO_DEVICE)) in said(app)


def test_others_who_start_alike_are_one_click_away_from_an_exact_hit(app: AppTest, presence: Presence) -> None:
    presence.login("kim")
    presence.login("u2", name="Kim Lee")
    look_for(app, "kim")
    assert app.code[0].value == "kim"
    assert app.button(key="open-0").click().run().code[0].value == "u2"


def test_an_empty_result_says_what_to_do_next(app: AppTest, presence: Presence) -> None:
    look_for(app, "nobody*")
    assert [header.value for header in app.subheader] == [texts.PERSON_NONE_TITLE]
    assert texts.person_none(7, 30) in said(app)
    look_for(app, "")
    assert [header.value for header in app.subheader] == [texts.PERSON_START_TITLE]


@pytest.mark.parametrize("wanted", ["é" * 200, "b" * 300, "b" * 9_000])
def test_a_text_that_is_too_long_for_a_search_is_answered_with_the_limit(app: AppTest, wanted: str) -> None:
    look_for(app, wanted)
    assert [warning.value for warning in app.warning] == [texts.ERROR_FIELD["text"]["too_long"]]
    assert "retry" not in keys(app), "the same text is refused again"
    look_for(app, "")
    look_for(app, wanted)
    assert [warning.value for warning in app.warning] == [texts.ERROR_FIELD["text"]["too_long"]], "typed, too"
    assert not app.text_input(key="q").proto.max_chars, "a browser ignores a longer text, and says nothing"
    assert len(app.session_state["q"]) <= 500, "addresses have a limit"


def test_a_long_pasted_text_is_looked_through_and_the_box_shows_what_is_searched_for(
    app: AppTest, presence: Presence
) -> None:
    presence.login("dana", aliases=["dana@example.com"])
    presence.login("u77")
    mail = "Subject: Help\nFrom: Dana <dana@example.com>\n" + "I cannot sign in.\n" * 100
    look_for(app, mail)  # by a link
    assert cards_of(app), "her sessions"
    look_for(app, "uid=u77\tcannot sign in\n" * 50)
    assert (app.session_state["q"], len(cards_of(app))) == ("uid=u77", 1)


def test_who_was_never_here_but_is_blocked_is_found_and_unblocked(app: AppTest, presence: Presence) -> None:
    presence.block("dana", by="alex", reason="Chargeback", message="Call us.", ticket="HD-7", duration=3_600)
    look_for(app, "dana")
    for value in (texts.PERSON_BLOCKED, "**alex**", "Chargeback", "Call us.", "HD-7"):
        assert value in said(app)
    app.button(key="unblock").click().run()
    confirm(app, "It was paid")
    assert presence.blocked("dana") is None
    assert "unblock" not in keys(app)
    assert texts.happened_staff("unblock", "**local operator**") in said(app)


def test_a_record_that_is_not_complete_says_since_when_it_is(app: AppTest, presence: Presence, server: Server) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT, max_ended=1)) as small:
        for number in range(2):
            small.login("dana", session_id=f"session-{number}")
            small.logout("dana", f"session-{number}")
        small.sweep()
        since = small.ended("dana").complete_since
    assert since is not None
    look_for(app, "dana")
    assert texts.ended_since(fmt.minute(since, ZoneInfo("UTC"))) in said(app)


# -- Acting ------------------------------------------------------------------------------------------------------------


def test_a_card_kicks_its_own_session_and_the_timeline_tells_of_it(app: AppTest, presence: Presence) -> None:
    logins = [presence.login("dana", device=f"Device {number}") for number in range(3)]
    look_for(app, "dana")
    assert set(cards_of(app)) == {login.session.session_id for login in logins}
    app.button(key=f"kick-{logins[1].session.session_id}").click().run()
    assert "Device 1" in [text.value for text in app.text]
    next(area for area in app.text_area if area.label == texts.MESSAGE).set_value("Please sign in again.")
    confirm(app, "Lost\nand found")
    assert [bool(presence.validate(login.token)) for login in logins] == [True, False, True]
    assert len(cards_of(app)) == 2
    assert texts.happened_end("staff", devices="**Device 1**", by="**local operator**") in said(app)
    assert "Reason: Lost\nand found\nMessage: Please sign in again.\nLogged in: " in said(app)


def test_keeping_only_one_ends_all_others_also_one_that_came_meanwhile(app: AppTest, presence: Presence) -> None:
    first, second = presence.login("dana"), presence.login("dana")
    look_for(app, "dana")
    late = presence.login("dana")
    app.button(key=f"keep-{first.session.session_id}").click().run()
    assert app.checkbox[0].value
    confirm(app)
    assert [bool(presence.validate(login.token)) for login in (first, second, late)] == [True, False, False]
    assert cards_of(app) == [first.session.session_id]


def test_keeping_only_one_offers_no_kick_of_it_if_the_others_have_ended_meanwhile(
    app: AppTest, presence: Presence
) -> None:
    first, second = presence.login("dana"), presence.login("dana")
    look_for(app, "dana")
    presence.logout("dana", second.session.session_id)
    app.button(key=f"keep-{first.session.session_id}").click().run()
    assert "danger-1" not in keys(app)
    assert [toast.value for toast in app.toast] == [texts.NOTHING_LEFT]


def test_kick_all_can_block_by_the_way(app: AppTest, presence: Presence) -> None:
    presence.login("dana")
    presence.login("dana")
    look_for(app, "dana")
    app.button(key="kick-all").click().run()
    next(box for box in app.selectbox if box.label == texts.BLOCK_FOR).select(texts.BLOCK_DAY)
    confirm(app)
    assert presence.sessions("dana") == []
    assert presence.blocked("dana") is not None
    assert texts.PERSON_BLOCKED in said(app)
    outcomes = [line for line in said(app).splitlines() if "blocked until" in line]
    assert ["UTC" in outcome for outcome in outcomes] == [False]
    assert "kick-all" not in keys(app)


def test_the_times_in_an_outcome_are_shown_in_the_time_zone_of_the_reader() -> None:
    at = datetime(2026, 3, 1, 23, 30, 5, tzinfo=UTC)
    ms = int(at.timestamp() * 1000)
    kick = AuditFact("ended", {"count": 1}), AuditFact("blocked", {"until": ms, "tickets": ""})
    kicked = AuditEntry(at=at, by="7", action="kick", facts=kick)
    revoked = AuditEntry(at=at, by="7", action="revoke_before", facts=(AuditFact("revoked", {"at": ms}),))
    berlin = ZoneInfo("Europe/Berlin")
    end = fmt.minute(at, berlin)
    assert fmt.outcome(kicked, berlin) == f"1 session ended, blocked until {end}"
    assert "00:31" in end, "rounded as on the other pages"
    assert fmt.outcome(revoked, berlin) == "all that began before 2026-03-02 00:30:05 signed out"
    assert fmt.outcome(kicked, UTC) == "1 session ended, blocked until 2026-03-01 23:30:05 UTC", "in a file"


def test_the_second_to_act_sees_who_was_first(app: AppTest, presence: Presence) -> None:
    login = presence.login("dana", device="Mac")
    look_for(app, "dana")
    app.button(key=f"kick-{login.session.session_id}").click().run()
    presence.kick("dana", login.session.session_id, by="alex", reason="test")
    confirm(app)
    assert "Already ended: **dana** (**Mac**) – kicked by **alex** at" in toasts(app)


def test_without_follow_cards_stay_until_a_refresh_and_changes_are_announced(app: AppTest, presence: Presence) -> None:
    first = presence.login("dana")
    look_for(app, "dana")
    app.toggle(key="follow").set_value(False).run()
    assert app.button(key="refresh-person").label == texts.REFRESH
    presence.login("dana")
    look_again("dana")
    app.run()
    assert cards_of(app) == [first.session.session_id]
    assert app.button(key="refresh-person").label == texts.PERSON_CHANGED
    app.button(key="refresh-person").click().run()
    assert len(cards_of(app)) == 2
    assert app.button(key="refresh-person").label == texts.REFRESH
    presence.block("dana", by="alex", reason="test")
    look_again("dana")
    assert app.run().button(key="refresh-person").label == texts.PERSON_CHANGED


def test_with_follow_cards_keep_their_places_and_an_ended_session_says_how_it_ended(
    app: AppTest, presence: Presence
) -> None:
    first, second = (presence.login("dana", device=device).session for device in ("Mac", "iPhone"))
    look_for(app, "dana")
    assert set(cards_of(app)) == {second.session_id, first.session_id}
    third = presence.login("dana", device="TV").session
    presence.kick("dana", second.session_id, by="alex", reason="test")
    look_again("dana")
    app.run()
    assert cards_of(app) == [first.session_id, third.session_id]
    assert f":gray[~~**iPhone**~~] :gray-badge[{texts.PERSON_ENDED}]" in said(app)
    kicked = texts.happened_end("staff", devices="**iPhone**", by="**alex**")
    assert said(app).count(kicked) == 2, "on the card and in the timeline"
    assert "**alex**: `1 session ended`" in toasts(app)
    look_again("dana")
    assert not app.run().toast, "an action is announced once"
    app.button(key="refresh-person").click().run()
    assert set(cards_of(app)) == {third.session_id, first.session_id}
    assert "~~" not in said(app)


def test_follow_shows_the_last_activity_without_a_refresh(app: AppTest, presence: Presence) -> None:
    login = presence.login("dana")
    look_for(app, "dana")
    state = app.session_state["person-state"]
    before = state.facts.sessions[0].last_seen
    presence.validate(login.token)
    look_again("dana")
    app.run()
    assert state.facts.sessions[0].last_seen > before


def test_follow_shows_a_sign_in_that_has_just_failed(app: AppTest, presence: Presence) -> None:
    presence.login("dana")
    look_for(app, "dana")
    for count, line in ((1, texts.failed("wrong_password", 1, "1")), (2, texts.failed("wrong_password", 2, "2"))):
        presence.login_failed("dana", why="wrong_password", ip="192.0.2.7")
        look_again("dana")
        app.run()
        assert line in said(app), count


def test_a_page_is_not_followed_while_a_dialog_is_open(app: AppTest, presence: Presence) -> None:
    login = presence.login("dana")
    look_for(app, "dana")
    app.button(key="kick-all").click().run()
    presence.login("dana")
    look_again("dana")
    app.run()
    assert cards_of(app) == [login.session.session_id]
    assert app.button(key="refresh-person").label == texts.PERSON_CHANGED


def test_a_colleague_who_has_the_person_open_is_named(app: AppTest, presence: Presence) -> None:
    presence.login("dana")
    presence.login("u2")
    presence.note_viewer("dana", by="sam@example.com")
    look_for(app, "dana")
    assert "Also open: `sam@example.com`, since " in said(app)
    assert [viewer.name for viewer in presence.note_viewer("dana", by="sam@example.com")] == ["local operator"]
    look_for(app, "u2")
    assert "Also open" not in said(app)
    assert presence.note_viewer("dana", by="sam@example.com") == [], "the page has closed the person"


def test_returning_to_the_page_reads_it_again(app: AppTest, presence: Presence) -> None:
    presence.login("dana")
    look_for(app, "dana")
    presence.login("dana")
    app.switch_page("views/history/history.py").run()
    assert not tables(app)
    presence.kick("dana", by="alex", reason="test")
    app.switch_page("views/person/person.py").run()
    assert texts.PERSON_NO_SESSION in said(app)
    app.switch_page("views/history/history.py").run()
    assert len(table(app).column("uid")) == 2


def test_beyond_six_sessions_are_rows_with_a_kick_and_the_details_of_one(app: AppTest, presence: Presence) -> None:
    for number in range(session_cards.CARDS):
        presence.login("dana", device=f"d{number}")
    look_for(app, "dana")
    assert (len(cards_of(app)), tables(app)) == (session_cards.CARDS, [])
    presence.login("dana", device=f"d{session_cards.CARDS}")
    click(look_for(app, "dana"), "refresh-person")
    assert has_box(app, "few-sessions"), "its timeline follows at once"
    for number in range(session_cards.CARDS + 1, session_cards.ROWS + 5):
        presence.login("dana", device=f"d{number}")
    look_for(app, "dana")
    click(app, "refresh-person")
    assert cards_of(app) == []
    assert has_box(app, "full-sessions")
    assert len(set(table(app).column("device"))) == session_cards.ROWS
    assert app.button(key="more-cards").label == texts.person_more_cards(0, "5", "55")
    click(app, "more-cards")
    assert len(table(app).column("device")) == 55
    assert "more-cards" not in keys(app)

    pick_row(app, 1)
    picked = table(app).data["picked"].partition(":")[2]
    assert {f"kick-{picked}", f"keep-{picked}", f"sign-in-{picked}", f"timeouts-{picked}"} <= {*keys(app)}
    assert f"**{table(app).column('device')[1]}**" in said(app)
    click(app, "close-details")
    assert (table(app).data["picked"], cards_of(app)) == (None, [])
    kicked = table(app).data["rows"][2]["ref"]
    press(app, "kick", kicked)
    confirm(app)
    left = [session.ref for session in presence.sessions("dana")]
    assert (kicked in left, len(left)) == (False, 54)
    press(app, "kick", "dana:nothing")
    assert texts.REASON not in [area.label for area in app.text_area], "a row that was not drawn"


def test_pills_choose_what_the_timeline_shows(app: AppTest, presence: Presence) -> None:
    login = presence.login("dana", device="Mac")
    presence.logout("dana", login.session.session_id)
    presence.block("dana", by="alex", reason="test")
    look_for(app, "dana")
    lines = {
        "login": texts.happened_login("**Mac**"),
        "end": texts.happened_end("user", device="**Mac**"),
        "staff": texts.happened_staff("block", "**alex**"),
    }
    assert all(line in said(app) for line in lines.values())
    for kind in lines:
        app.button_group(key="kinds").set_value(kind).run()
        assert [other for other, line in lines.items() if line in said(app)] == [kind]


def _signs_in_for_months(server: Server) -> None:
    """Two sign-ins of dana whose sessions are no longer known, and a live session."""
    with Presence.from_url(server.url, Settings(timeout=PATIENT, keep_sign_ins=90, keep_logout=0)) as site:
        site.internal.context.place_of = lambda ip: Place(country="FR", city="Lyon").packed() if ip else b""
        for days, device in ((40, "Dana's <b>Mac"), (60, "Phone")):
            row = {"uid": "dana", "device": device, "login_at": time.time() - days * 86_400, "ip": "192.0.2.7",
                   "user_agent": FIREFOX, "absolute_timeout": 86_400 * 100, "idle_timeout": 86_400 * 100}  # fmt: skip
            [login] = site.login_many([row], imported=True)
            assert isinstance(login, Login)
            site.logout("dana", login.session.session_id)
        site.login("dana", device="Tablet")


def test_the_timeline_has_the_sign_ins_of_months_each_once(
    app: AppTest, server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_KEEP_SIGN_INS", "90")
    _signs_in_for_months(server)
    look_for(app, "dana")
    logins = [texts.happened_login(name) for name in ("**Tablet**", "`Dana's <b>Mac`", "**Phone**")]
    lines = [line for line in said(app).splitlines() if line.startswith(texts.happened_login("").rstrip())]
    assert [line.partition(" :green")[0] for line in lines] == logins
    assert said(app).count("Lyon, FR") == 2
    assert texts.FLAG_WORDS["new_device"] not in said(app)


def test_a_masked_viewer_sees_no_name_of_a_device_and_no_place_in_the_sign_ins(
    app: AppTest, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_KEEP_SIGN_INS", "90")
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name,ip")
    _signs_in_for_months(server)
    look_for(app, "dana")
    assert said(app).count(texts.happened_login(f"**{HIDDEN}**")) == 3
    assert not any(word in said(app) for word in ("Mac", "Phone", "Lyon"))


def test_a_login_has_its_place_and_flags_on_the_timeline_also_after_its_end(
    app: AppTest, presence: Presence, server: Server, tmp_path: Path
) -> None:
    places = str(write_place_file(tmp_path / "places.mmdb"))
    with Presence.from_url(server.url, Settings(place_file=places, timeout=PATIENT)) as site:
        site.login("dana", device="Mac", device_id="device-mac", ip="192.0.2.7")
        for _ in range(5):
            site.login_failed("dana", why="wrong_password", ip="203.0.113.7")
        login = site.login("dana", device="Phone", device_id="device-phone", ip="203.0.113.7")
        site.kick("dana", login.session.session_id, by="alex", reason="test")
    flags = [texts.FLAG_WORDS[flag] for flag in ("new_device", "distant", "after_failures")]
    lines = said(look_for(app, "dana")).splitlines()
    assert " · ".join(("203.0.113.7 (Tokyo, JP)", *flags)) in lines
    assert "192.0.2.7 (Lyon, FR)" in lines


def test_older_staff_actions_are_read_on_demand(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        presence.block("dana", by=f"staff{number}", reason="test")
    monkeypatch.setattr(person_state, "_ENTRIES", 2)
    look_for(app, "dana")
    assert "**staff0**" not in said(app)
    app.button(key="look-back").click().run()
    assert "**staff0**" in said(app)
    assert "look-back" not in keys(app)


# -- Who may see and do what -------------------------------------------------------------------------------------------


def test_a_masked_viewer_finds_no_one_by_name_and_sees_no_name_or_address(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name,ip")
    login = presence.login("u1", name="Dana Novak", aliases=["dana@example.com"], ip="192.0.2.7", device="Mac")
    presence.validate(login.token, ip="198.51.100.7")
    for wanted in ("dana", "dana@example.com"):
        assert [header.value for header in look_for(app, wanted).subheader] == [texts.PERSON_NONE_TITLE]
    look_for(app, "u1")
    assert [header.value for header in app.header] == [texts.PERSON_NAME_HIDDEN]
    assert f"**{HIDDEN}**" in said(app)
    for hidden in ("Mac", "Dana", "example.com", "192.0.2", "198.51.100"):
        assert hidden not in said(app)
    assert cards_of(app) == []
    assert not {"kick-all", "block", "unblock"} & set(keys(app))


def test_a_role_without_people_sees_no_page(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "stats")
    look_for(app, "dana")
    assert [header.value for header in app.subheader] == [texts.NO_PERMISSION_TITLE]


def test_a_kick_by_who_has_lost_the_role_is_refused_and_written_down(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = presence.login("dana")
    look_for(app, "dana")
    app.button(key="kick-all").click().run()
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    confirm(app)
    assert presence.validate(login.token)
    [entry] = presence.audit(uid="dana").items
    assert (entry.action, entry.outcome) == ("denied", "kick refused once")


@pytest.mark.parametrize("uid", ["\x07", "💥" * 256])
def test_an_impossible_uid_is_not_reported_as_waiting_for_redis(app: AppTest, uid: str) -> None:
    look_for(app, uid)
    assert app.warning[0].value in (texts.ERROR_FIELD["text"]["too_long"], texts.ERROR_FIELD["text"][""])
    assert not app.info


# -- Text, and Redis away ----------------------------------------------------------------------------------------------


def test_hostile_text_is_shown_as_it_is(app: AppTest, presence: Presence) -> None:
    presence.login("mallory", name=HOSTILE, device=HOSTILE[:32], aliases=["<b>m</b>"])
    presence.kick("mallory", by="<i>alex</i>", reason=HOSTILE, message=HOSTILE)
    look_for(app, "mallory")
    shown = fmt.literal(HOSTILE)
    assert "‹U+202E›" in shown
    assert app.header[0].value == fmt.code(HOSTILE)
    assert texts.happened_end("staff", devices=fmt.code(HOSTILE[:32]), by="`<i>alex</i>`") in said(app)
    assert f"Reason: {shown}\nMessage: {shown}\nLogged in: " in said(app)
    assert not [element for element in app.markdown if "<script>" in element.value.replace(fmt.code(HOSTILE[:32]), "")]


def test_an_outage_keeps_the_person_and_turns_actions_off(app: AppTest, server: Server, presence: Presence) -> None:
    login = presence.login("dana", name="Dana Novak")
    look_for(app, "dana")
    server.pause()
    open_again(app)
    assert [header.value for header in app.header] == ["**Dana Novak**"]
    assert app.button(key=f"kick-{login.session.session_id}").disabled
    assert app.button(key="kick-all").disabled
    server.resume()
    open_again(app)
    assert not app.button(key="kick-all").disabled


def test_a_person_opened_in_an_outage_shows_when_redis_is_back(
    app: AppTest, server: Server, presence: Presence
) -> None:
    presence.login("dana", name="Dana Novak")
    server.pause()
    look_for(app, "dana")
    assert texts.PERSON_UNREAD in said(app)
    server.resume()
    find(open_store(), "dana", by_name=True, fresh=True)
    open_again(app)
    assert [header.value for header in app.header] == ["**Dana Novak**"]


# -- At the person's wish ----------------------------------------------------------------------------------------------


def test_an_admin_who_types_the_user_id_forgets_a_person(app: AppTest, presence: Presence) -> None:
    presence.login("u1", name="Dana Novak")
    look_for(app, "u1")
    app.button(key="privacy-export").click().run()
    assert not app.exception
    assert [entry.action for entry in presence.audit()] == ["export_person"]
    assert app.button(key="danger-erase").disabled
    app.text_input(key="erase-reason").set_value("asked by letter").run()
    app.text_input(key="erase-typed").set_value("u2").run()
    assert app.button(key="danger-erase").disabled
    app.text_input(key="erase-typed").set_value("u1").run()
    app.button(key="danger-erase").click().run()
    assert not app.exception
    assert "Person erased, with 1 session." in toasts(app)
    assert not presence.sessions("u1")
    assert not presence.ended("u1").items
    entry = presence.audit().items[0]
    assert (entry.action, entry.by, entry.reason) == ("forget", "local operator", "asked by letter")


def test_only_an_admin_is_offered_it_and_a_demoted_admin_is_refused(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence.login("u1")
    look_for(app, "u1")
    app.text_input(key="erase-reason").set_value("asked").run()
    app.text_input(key="erase-typed").set_value("u1").run()
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "support")
    app.button(key="danger-erase").click().run()
    assert len(presence.sessions("u1")) == 1
    [denied] = presence.audit(uid="u1")
    assert denied.outcome == "forget refused once"
    app.run()
    assert "forget" not in keys(app)
