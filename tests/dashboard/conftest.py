"""The dashboard without a browser: its script under AppTest, on a real server that all tests of this room share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from presence_core import Login, Presence, Settings
from presence_dashboard import texts
from presence_dashboard.store import open_store
from tests.behind_gate import stand_behind_gate
from tests.fair_clock import PATIENT
from tests.servers import Server, missing, redis_binary, valkey_binary

SCRIPT = str(Path(__file__).parent.parent.parent / "presence_dashboard" / "main.py")
IMPATIENT = Settings(timeout=1.5)
"""What is to be seen while Redis hangs waits for this."""


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    yield shared_server
    if not shared_server.running:
        shared_server.restart()
    shared_server.command("FLUSHALL")


@pytest.fixture
def presence(server: Server) -> Iterator[Presence]:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as client:
        yield client


@pytest.fixture(autouse=True)
def behind_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and actions of these tests run as behind the gate."""
    stand_behind_gate(monkeypatch)


@pytest.fixture
def app(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    monkeypatch.setenv("PRESENCE_TIMEOUT", str(IMPATIENT.timeout))
    monkeypatch.delenv("PRESENCE_DEMO", raising=False)
    st.cache_resource.clear()
    yield AppTest.from_file(SCRIPT, default_timeout=30)
    st.cache_resource.clear()


def log_in(presence: Presence, count: int, prefix: str = "user") -> list[Login]:
    return [presence.login(f"{prefix}{number:02}", name=f"Person {number}", device="Mac") for number in range(count)]


def refs(*logins: Login) -> list[str]:
    return [login.session.ref for login in logins]


def uids(app: AppTest) -> list[str]:
    assert not app.exception
    return list(app.dataframe[0].value["uid"])


def toasts(app: AppTest) -> str:
    return " | ".join(toast.value for toast in app.toast)


def tick(app: AppTest, *rows: int) -> AppTest:
    key = f"table-{app.session_state['listing'].key}"
    app.session_state[key] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return app.run()


def confirm(app: AppTest, reason: str = "Shared account") -> AppTest:
    field = next(area for area in app.text_area if area.label == texts.REASON)
    field.set_value(reason)
    button = next(one for one in app.button if one.proto.is_form_submitter and one.label != texts.CANCEL)
    return button.click().run()


def open_anew(app: AppTest) -> AppTest:
    """As a tick later: what was counted is no longer shared."""
    open_store().counts(anew=True)
    return app.run()
