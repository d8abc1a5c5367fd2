"""Messages that a browser could send although no page offers them, and every byte of the replies.

The tests talk to a real dashboard behind a password, only by its websocket.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosed, InvalidStatus

from presence_core import AuditFact, Presence, Session, SessionFilter, Settings, StaffRole
from presence_core.files.password_file import PasswordFile
from presence_core.operations.maintenance import history
from presence_dashboard import texts
from presence_dashboard.data.history_query import VIEWS
from presence_dashboard.gate.staff_sessions import COOKIE, PASSWORD
from presence_dashboard.roles import HIDDEN
from tests.dashboard.wire import KEEP, Wire, pressed, serve, ticked
from tests.support.fair_clock import PATIENT
from tests.support.samples import write_samples
from tests.support.servers import Server, missing, redis_binary, valkey_binary, wait_for

STAFF: dict[str, StaffRole] = {"dana": "support", "eve": "viewer", "stan": "stats"}
PAGES = ("", "live", "sessions", "person", "blocks", "history", "report", "health", "staff", "handbook")

NAMES = (b"Lovelace", b"ada@example.com")
SEARCHES = ("", "q=visitor-7", "q=Lovelace", "q=ada@example.com&inside=ada@example.com", "q=203.0.113.7")
EXPORT = AuditFact("sessions_exported", {"count": 1}), AuditFact("filter", {"filter": "Lovelace"})
PLACES = (b"203.0.113.7", b"198.51.100.7")


@dataclass
class House:
    url: str
    server: Server
    presence: Presence
    staff: Presence  #: the store of staff sessions
    passwords: PasswordFile
    log: Path
    cookies: dict[str, str]
    tokens: list[str] = field(default_factory=list)
    number: int = 0

    def called(self, name: str) -> str:
        return f"{name}{self.number}"

    def log_in(self) -> Session:
        login = self.presence.login("visitor-7", name="Ada Lovelace", aliases=["ada@example.com"], ip="203.0.113.7")
        self.presence.validate(login.token, ip="198.51.100.7")
        self.tokens.append(login.token)
        return login.session

    def is_live(self, session: Session) -> bool:
        return bool(self.presence.validate_session(session.uid, session.session_id, touch=False))

    def refused(self, by: str) -> list[str]:
        return [entry.outcome for entry in self.presence.audit(by=self.called(by)).items if entry.action == "denied"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("frames")
    log, passwords = directory / "log", PasswordFile(directory / "staff")
    passwords.path.touch(0o600)  # a password file that is not there is refused
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Server.start(binary, directory / "redis") as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence,
        Presence.from_url(
            server.url, Settings(namespace=f"{presence.settings.namespace}-staff", timeout=PATIENT)
        ) as staff,
    ):
        environ = {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DASHBOARD_ACCESS": "password",
            "PRESENCE_STAFF_FILE": str(passwords.path),
            "PRESENCE_DASHBOARD_MASK": "name,ip",
        }
        with serve(environ, log) as url:
            yield House(url, server, presence, staff, passwords, log, {})


@pytest.fixture
def house(running: House) -> Iterator[House]:
    """All members are signed in, each time under a new name, because the dashboard caches a role for a second."""
    running.number += 1
    for name, role in STAFF.items():
        stored = running.passwords.set(running.called(name), "correct horse battery")
        login = running.staff.login(running.called(name), app="dashboard", attributes={PASSWORD: stored.version})
        running.presence.set_staff(running.called(name), role, by="test")
        running.cookies[name] = f"{COOKIE}={login.token}"
    yield running
    running.server.command("FLUSHALL")


def opened(house: House, name: str) -> Any:
    return Wire.open(house.url, house.cookies[name])


def holds(wire: Wire, words: tuple[bytes, ...]) -> list[bytes]:
    everything = b"".join(wire.heard)
    return [word for word in words if word in everything]


def test_a_viewer_gets_nowhere_with_the_frames_of_a_colleague_who_may_kick(house: House) -> None:
    session = house.log_in()
    with opened(house, "dana") as dana, opened(house, "eve") as eve:
        kick = dana.go().kick()
        dana.ask(kick)
        confirm = {"id": dana.buttons()[texts.confirm(1)], "trigger_value": True}
        assert holds(dana, NAMES + PLACES)  # it is there for members with the right

        shown = eve.go().table()
        assert shown is not None
        assert not shown["canKick"]
        for forged in (
            kick,
            pressed(shown["id"], "kick", session.ref),
            pressed(shown["id"], "kick", None),
            ticked(shown, session.ref),
        ):
            eve.ask(forged)
            assert texts.confirm(1) not in eve.buttons()
        eve.ask(dana.fill(), confirm)
        for wish in (dana.wish(kick), dana.wish(dana.fill(), confirm)):
            eve.socket.send(wish)
            eve.hear()
        assert holds(eve, NAMES + PLACES) == []
        eve.ask(eve.go().open_person())  # they may open a person
        eve.socket.send(b"\xff\xff not a frame")
        with pytest.raises(ConnectionClosed):
            eve.ask()
    assert house.is_live(session)
    assert house.refused("eve") == [], "nothing ran that could be refused"


def test_a_ref_that_the_page_does_not_show_and_a_malformed_one_open_no_dialog(house: House) -> None:
    hidden = house.presence.login("visitor-8", name="Grace Hopper").session
    session = house.log_in()
    with opened(house, "dana") as dana:
        shown = dana.go(query="q=visitor-7").table()
        assert shown is not None
        assert [row["ref"] for row in shown["rows"]] == [session.ref]
        for ref in (hidden.ref, "visitor-7", 0, None, True, ["visitor-7"], {"ref": session.ref}, "x" * 5_000, "\x00"):
            dana.ask(pressed(shown["id"], "kick", ref), query="q=visitor-7")
            assert texts.confirm(1) not in dana.buttons(), ref
        states: list[Any] = [{"ticks": 5}, {"ticks": {"list": 1, "sequence": "x", "refs": [hidden.ref]}}, [], "x"]
        for state in states:
            dana.ask({"id": shown["id"], "json_value": json.dumps(state)}, query="q=visitor-7")
        dana.ask(ticked(shown, hidden.ref, "visitor-7"), query="q=visitor-7")
        assert texts.kick_selected(0) in dana.buttons()
        dana.ask(ticked(shown, hidden.ref, session.ref), query="q=visitor-7")
        assert texts.kick_selected(1) in dana.buttons()
        assert holds(dana, (b"Hopper",)) == []
    assert house.is_live(session)
    assert house.is_live(hidden)


def test_a_row_that_has_ended_opens_no_dialog(house: House) -> None:
    session = house.log_in()
    with opened(house, "dana") as dana:
        kick = dana.go().kick()
        house.presence.kick("visitor-7", by="alex", reason="Shared account")
        time.sleep(KEEP + 0.1)
        dana.ask()
        [row] = (dana.table() or {})["rows"]
        assert row["ended"].startswith("Kicked by alex, ")
        dana.ask(kick)
        assert texts.confirm(1) not in dana.buttons()
    assert not house.is_live(session)


def test_a_kick_by_staff_demoted_with_the_dialog_open_is_refused_logged_and_names_no_one(house: House) -> None:
    session = house.log_in()
    with opened(house, "dana") as dana:
        dana.ask(dana.go().kick())
        wish = dana.wish(dana.fill(), {"id": dana.buttons()[texts.confirm(1)], "trigger_value": True})
        house.presence.set_staff(house.called("dana"), "viewer", by="test")
        dana.send_later(wish)
        assert house.refused("dana") == ["kick refused once"]
        assert holds(dana, NAMES + PLACES) == []
        assert texts.KICK_ONE.encode() not in b"".join(dana.heard)
    assert house.is_live(session)


def test_a_row_kick_by_who_was_demoted_meanwhile_is_refused_and_written_down(house: House) -> None:
    session = house.log_in()
    with opened(house, "dana") as dana:
        wish = dana.go().wish(dana.kick())
        house.presence.set_staff(house.called("dana"), "viewer", by="test")
        dana.send_later(wish)
        assert house.refused("dana") == ["kick refused once"]
        assert texts.confirm(1) not in dana.buttons()
        assert holds(dana, NAMES + PLACES) == []
    assert house.is_live(session)


@pytest.mark.parametrize("how", ["removed", "signed out"])
def test_a_kick_by_staff_who_are_signed_out_is_logged_and_names_no_one(house: House, how: str) -> None:
    session = house.log_in()
    with opened(house, "dana") as dana:
        dana.ask(dana.go().kick())
        wish = dana.wish(dana.fill(), {"id": dana.buttons()[texts.confirm(1)], "trigger_value": True})
        if how == "removed":
            house.presence.remove_staff(house.called("dana"), by="test")
        else:
            house.staff.kick(house.called("dana"), by="test", reason="laptop stolen")
        dana.send_later(wish)
        assert house.refused("dana") == ["kick refused once"]
        assert texts.SIGNED_OUT_TITLE.encode() in b"".join(dana.heard)
        assert holds(dana, NAMES + PLACES) == []
    assert house.is_live(session)


def test_the_widgets_of_another_tab_of_ones_own_do_nothing(house: House) -> None:
    session = house.log_in()
    with opened(house, "dana") as first, opened(house, "dana") as second:
        first.ask(first.go().kick())
        second.go()
        second.ask(first.fill(), {"id": first.buttons()[texts.confirm(1)], "trigger_value": True})
        assert texts.confirm(1) not in second.buttons()
    assert house.is_live(session)


def test_a_role_without_access_to_people_receives_none_at_any_address(house: House) -> None:
    house.log_in()
    asked = SessionFilter(uid="visitor-7")
    house.presence.ask_approval(filter=asked, by="alex", reason="Lovelace asked", network="203.0.113.7", sessions=1)
    for page in PAGES:
        with opened(house, "stan") as stan:
            stan.go(page, "q=visitor-7&person=visitor-7&view=staff")
            assert holds(stan, (*NAMES, *PLACES, b"visitor-7")) == []
            assert stan.table() is None


def test_who_must_not_see_names_and_addresses_is_sent_none_on_any_page(house: House) -> None:
    session = house.log_in()
    presence = house.presence
    presence.kick(session.uid, by="alex", reason="Shared account")
    presence.audit_note(by="alex", what="export", outcome='1 session exported: {"text":"Lovelace"}')
    presence.audit_note(by="alex", what="export", facts=EXPORT)
    presence.denied(by="mallory", what="sign-in", reason="wrong password, from 203.0.113.7")
    asked = SessionFilter(text="Lovelace", ip="203.0.113.7")
    presence.pause_job(presence.start_kick(asked, by="alex", reason="Clean-up", expected=50).id, by="alex")
    request = presence.ask_approval(filter=asked, network="203.0.113.7", by="alex", reason="Clean-up", sessions=1)
    presence.answer_request(request.id, "refuse", by="root", word="No.")
    presence.ask_approval(filter=asked, by="alex", reason="Clean-up", sessions=1)
    house.log_in()
    seen: list[bytes] = []
    for page, query in (
        *((page, query) for page in ("sessions", "person") for query in SEARCHES),
        *(("history", f"view={view}") for view in VIEWS),
        ("live", ""),
        ("health", ""),
    ):
        with opened(house, "eve") as eve:
            eve.go(page, query)
            if page == "history" and (shown := eve.table()):
                eve.ask(pressed(shown["id"], "pick", shown["rows"][0]["ref"]), query=query)
            own = query.encode()  # the text that they typed is shown to them
            assert [word for word in holds(eve, NAMES + PLACES) if word not in own] == [], (page, query)
            seen += eve.heard
    everything = b"".join(seen)
    for there in (b"Clean-up", b"1 session exported", b"wrong password, from", HIDDEN.encode(), "search “".encode()):
        assert there in everything


DEVICES = (b"Zoe's iPhone", b"Zoe\xe2\x80\x99s iPad", b"Zoe")


@pytest.mark.parametrize("name", ["stan", "eve"])
@pytest.mark.parametrize("split", ["", "devices", "apps", "reason"])
def test_who_must_not_see_names_is_sent_no_device_on_the_live_page(house: House, name: str, split: str) -> None:
    for device in ("Zoe's iPhone", "Zoe\u2019s iPad"):
        house.presence.login("visitor-7", device=device, app="shop")
    house.presence.kick("visitor-7", by="alex", reason="Shared account")
    house.presence.login("visitor-7", device="Zoe's iPhone", app="shop")
    end = int(time.time()) // 60 * 60
    write_samples(house.presence, end - 1_200, [(1, 1, 0)] * 100)
    ctx, hour = house.presence.internal.context, (end - 60) // 3600 * 3_600_000
    house.presence.internal.run(history.split(ctx, hour, {"shop": 1}, {"Zoe's iPhone": 1}))
    with opened(house, name) as wire:

        def shows_them() -> bool:
            return b"shop" in b"".join(wire.go("live", f"split={split}").heard)

        wait_for("the counts of this test: pages share what they read", shows_them)
        charts = [element.bidi_component.id for element in wire.elements() if element.HasField("bidi_component")]
        groups = [element.button_group for element in wire.elements() if element.HasField("button_group")]
        for group in groups:  # a browser may send any choice
            wire.ask({"id": group.id, "string_array_value": {"data": ["devices"]}}, query=f"split={split}")
            wire.ask({"id": group.id, "int_array_value": {"data": [4]}}, query=f"split={split}")
        assert groups or charts
        assert holds(wire, DEVICES) == []
    with opened(house, "dana") as dana:
        dana.go("live")
        assert holds(dana, DEVICES[:1]) == [DEVICES[0]], "staff who may see names see devices"


@pytest.mark.parametrize("name", ["stan", "eve"])
def test_who_must_not_see_names_is_sent_no_device_on_any_page(house: House, name: str) -> None:
    agent = "Shop/1.0 (Zoe's iPhone; iOS 26.1)"
    for device in ("Zoe's iPhone", "Zoe\u2019s iPad"):
        house.presence.login("visitor-7", device=device, app="shop", user_agent=agent)
    house.presence.kick("visitor-7", by="alex", reason="Shared account")
    asked = SessionFilter(device="Zoe's iPhone")
    house.presence.pause_job(house.presence.start_kick(asked, by="alex", reason="Clean-up", expected=50).id, by="alex")
    for device in ("Zoe's iPhone", "Zoe\u2019s iPad"):
        house.presence.login("visitor-7", device=device, app="shop", user_agent=agent)
    for page, query in (
        *((page, query) for page in PAGES for query in ("", "q=visitor-7")),
        *(("history", f"view={view}") for view in VIEWS),
        ("sessions", "device=Zoes"),
    ):
        with opened(house, name) as wire:
            wire.go(page, query)
            if page != "sessions" and (shown := wire.table()):
                wire.ask(pressed(shown["id"], "pick", shown["rows"][0]["ref"]), query=query)
            for menu in wire.menus():
                wire.ask({"id": menu, "bool_value": True}, query=query)
            assert holds(wire, (b"Zoe's", "Zoe\u2019s".encode())) == [], (page, query)
    with opened(house, "dana") as dana:
        dana.go("person", "q=visitor-7")
        assert holds(dana, DEVICES[:2]) == [*DEVICES[:2]], "staff who may see names see devices"
        dana.go("sessions")
        dana.heard.clear()
        for menu in dana.menus():
            dana.ask({"id": menu, "bool_value": True})
        assert any(b"choose-device-Zoe" in frame for frame in dana.heard), "menus that are opened are read"


def test_a_message_that_no_page_sends_is_not_passed_on(house: House) -> None:
    def connections() -> set[str]:
        clients = house.server.command("CLIENT", "LIST").splitlines()
        return {client.partition(" addr")[0] for client in clients if "cmd=client|list" not in client}

    with opened(house, "stan") as stan:
        stan.go("health")
        before = connections()
        for message in (BackMsg(clear_cache=True), BackMsg(load_git_info=True), BackMsg(set_run_on_save=True)):
            stan.socket.send(message.SerializeToString())
        stan.go("health")
    assert before <= connections(), "the store was closed"
    assert {ForwardMsg.FromString(frame).WhichOneof("type") for frame in stan.heard} & {"git_info_changed"} == set()


def test_a_foreign_origin_a_foreign_host_and_a_bent_cookie_open_nothing(house: House) -> None:
    good = house.cookies["dana"]
    bent = good[:-4] + ("AAAA" if not good.endswith("AAAA") else "BBBB")
    for cookies, headers in (
        (good, {"Origin": "https://evil.example"}),
        (good, {"Origin": "null"}),
        (good, {"Host": "rebound.example"}),
        (bent, {}),
        ("", {}),
    ):
        with pytest.raises((InvalidStatus, ConnectionClosed)), Wire.open(house.url, cookies, **headers) as wire:
            wire.go()


def test_no_frame_and_no_line_of_the_log_holds_a_token(house: House) -> None:
    house.log_in()
    with opened(house, "dana") as dana:
        for page in PAGES:
            dana.go(page, "q=visitor-7")
        assert holds(dana, NAMES)
        said = b"".join(dana.heard) + house.log.read_bytes()
    for token in (*house.tokens, *(cookie.partition("=")[2] for cookie in house.cookies.values())):
        assert token.rpartition(".")[2].encode() not in said
