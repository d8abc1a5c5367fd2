"""The dashboard without a browser: its script under AppTest, on a real server that all tests of this folder share."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from presence_core import Login, Presence, Settings
from presence_core.drive_generators import drive
from presence_core.files.password_file import PasswordFile
from presence_core.scripts.calls import Op
from presence_core.transport.exchange import run_operation
from presence_core.transport.sync_transport import SyncTransport
from presence_dashboard import texts
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.gate.staff_sessions import COOKIE, PASSWORD, StaffSessions, open_staff_sessions
from tests.dashboard.wire import events_of
from tests.support.behind_gate import stand_behind_gate
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary

SCRIPT = str(Path(__file__).parents[2] / "presence_dashboard" / "main.py")
AWAY = 0.3
"""Seconds for which each call of a test waits for a Redis that it has paused."""


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server. Calls wait for it as long as a slow machine needs, and briefly while it is paused."""

    def run(transport: SyncTransport, operation: Op[Any]) -> Any:
        runs = shared_server.running
        transport._socket_has_our_timeout = runs
        limit = transport._timeout if runs else AWAY
        return drive(run_operation(transport._router, operation, limit), transport._carry_out)

    monkeypatch.setattr(SyncTransport, "run", run)
    yield shared_server
    if not shared_server.running:
        shared_server.restart()
    shared_server.command("FLUSHALL")


@pytest.fixture
def presence(server: Server) -> Iterator[Presence]:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as client:
        yield client


@pytest.fixture
def sign_ins(server: Server) -> Iterator[Presence]:
    """The store of staff sessions."""
    with Presence.from_url(server.url, Settings(namespace="online-staff", timeout=PATIENT)) as client:
        yield client


@pytest.fixture(autouse=True)
def behind_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and actions of these tests run as they do behind the gate."""
    stand_behind_gate(monkeypatch)


@pytest.fixture(autouse=True)
def no_components(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each app that a test makes, Streamlit reads the metadata of every installed package to look for components.
    There are none, and this would take half of the time."""
    monkeypatch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)


@pytest.fixture
def app(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    monkeypatch.setenv("PRESENCE_TIMEOUT", str(PATIENT))
    monkeypatch.delenv("PRESENCE_DEMO", raising=False)
    st.cache_resource.clear()
    yield AppTest.from_file(SCRIPT, default_timeout=30)
    st.cache_resource.clear()


@pytest.fixture
def staff(
    server: Server, presence: Presence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StaffSessions]:
    """Sign-ins of dana, who has the role support and signs in with a password."""
    file = PasswordFile(tmp_path / "staff")
    file.set("dana", "correct horse battery")
    presence.set_staff("dana", "support", by="setup")
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    monkeypatch.setenv("PRESENCE_DASHBOARD_ACCESS", "password")
    monkeypatch.setenv("PRESENCE_STAFF_FILE", str(file.path))
    st.cache_resource.clear()
    yield open_staff_sessions()
    st.cache_resource.clear()


def use_old_token(server: Server, token: str) -> None:
    """Use a token after the grace of the rotate that replaced it."""
    with Presence.from_url(server.url, Settings(timeout=PATIENT, rotate_grace=1)) as site:
        site.internal.context.now = str(round(time.time() * 1000) - 1000)
        site.rotate(token)
        site.internal.context.now = ""
        assert not site.validate(token)


def log_in(presence: Presence, count: int, prefix: str = "user") -> list[Login]:
    return [presence.login(f"{prefix}{number:02}", name=f"Person {number}", device="Mac") for number in range(count)]


def cells(app: AppTest, label: str) -> list[str]:
    """The cells of a column of the small HTML tables, as text."""
    pages = "".join(element.proto.body for element in app.get("html"))
    found = re.findall(rf'<td[^>]* data-label="{re.escape(label)}">(.*?)</td>', pages)
    return [unescape(re.sub("<[^>]*>", "", cell)) for cell in found]


def refs(*logins: Login) -> list[str]:
    return [login.session.ref for login in logins]


@dataclass(frozen=True)
class Table:
    """The table of sessions as it was sent to the browser."""

    id: str
    data: dict[str, Any]

    @property
    def columns(self) -> list[str]:
        return [column["name"] for column in self.data["columns"]]

    def column(self, name: str) -> list[Any]:
        place = self.columns.index(name)
        return [row["cells"][place] for row in self.data["rows"]]

    def ref(self, uid: str) -> str:
        [ref] = [row["ref"] for row in self.data["rows"] if row["ref"].startswith(f"{uid}:")]
        return str(ref)

    @property
    def ticked(self) -> list[int]:
        return [place for place, row in enumerate(self.data["rows"]) if row["ticked"]]

    @property
    def ended(self) -> list[str]:
        return [row["ended"] for row in self.data["rows"]]


def tables(app: AppTest) -> list[Table]:
    assert not app.exception
    return [Table(part.proto.id, json.loads(part.proto.json)) for part in app.get("bidi_component")]


def table(app: AppTest, caption: str | None = None) -> Table:
    """The only table, or the one with this caption."""
    [shown] = [table for table in tables(app) if caption in (None, table.data["caption"])]
    return shown


def uids(app: AppTest) -> list[str]:
    return table(app).column("uid")


def send(app: AppTest, *states: WidgetState) -> AppTest:
    """Run with what the browser's script sends."""
    every = app._tree.get_widget_states()
    every.widgets.extend(states)
    return app._run(every)


def tick(app: AppTest, *rows: int) -> AppTest:
    """Tick these rows of the page and no others."""
    shown = table(app)
    refs = [shown.data["rows"][row]["ref"] for row in rows]
    ticks = {"list": shown.data["list"], "sequence": shown.data["sequence"] + 1, "refs": refs}
    return send(app, WidgetState(id=shown.id, json_value=json.dumps({"ticks": ticks})))


def tick_member(app: AppTest, row: int) -> AppTest:
    """Tick a row of the list of staff."""
    return pick_row(app, row)


def pick_row(app: AppTest, row: int, caption: str | None = None) -> AppTest:
    """Click a row of a table: its details are shown, or hidden if they were."""
    shown = table(app, caption)
    ref = shown.data["rows"][row]["ref"]
    picked = None if ref == shown.data["picked"] else ref
    events = json.dumps([{"event": "pick", "value": picked}])
    send(app, WidgetState(id=events_of(shown.id), json_trigger_value=events))
    assert not app.exception
    return app


def sign_in(staff: StaffSessions, monkeypatch: pytest.MonkeyPatch, *, age: int, idle: int, name: str = "dana") -> str:
    """A sign-in that began ``age`` seconds ago and was last active ``idle`` seconds ago; its token."""
    now = time.time()
    assert staff.passwords is not None
    stored = staff.passwords.find(name)
    attributes = {PASSWORD: stored.version} if stored else {}
    row = {"uid": name, "login_at": now - age, "last_seen": now - idle, "attributes": attributes}
    [login] = staff.sessions.login_many([row], imported=True)
    assert isinstance(login, Login)
    stand_behind_gate(monkeypatch, {COOKIE: login.token})
    return login.token


def open_page(page: str = "sessions", **query: str) -> AppTest:
    app = AppTest.from_file(SCRIPT, default_timeout=30)
    for name, value in query.items():
        app.query_params[name] = value
    if page != "sessions":
        app.switch_page(f"views/{page}/{page}.py")
    app.run()
    assert not app.exception
    return app


def click(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception
    return app


def press(app: AppTest, event: str, ref: object) -> AppTest:
    """Press a button of a row."""
    events = json.dumps([{"event": event, "value": ref}])
    return send(app, WidgetState(id=events_of(table(app).id), json_trigger_value=events))


def toasts(app: AppTest) -> str:
    return " | ".join(toast.value for toast in app.toast)


def confirm(app: AppTest, reason: str = "Shared account") -> AppTest:
    field = next(area for area in app.text_area if area.label == texts.REASON)
    field.set_value(reason)
    button = next(
        element for element in app.button if element.proto.is_form_submitter and element.label != texts.CANCEL
    )
    return button.click().run()


def age_cache() -> None:
    """As some seconds later: what the pages share is too old, and still there."""
    for kept in open_store()._shared.values():
        kept.reading = Reading(kept.reading.value, kept.reading.read)


def open_again(app: AppTest) -> AppTest:
    """As after a refresh: cached counts are no longer used."""
    open_store().counts(fresh=True)
    return app.run()
