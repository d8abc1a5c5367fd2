"""Pages started without the gate: each shows one sentence, and each action is refused."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from presence_core import Presence
from presence_dashboard import access, texts
from presence_dashboard.actions import kick_and_block, privacy
from presence_dashboard.data.store import open_store
from presence_dashboard.roles import Denied, SignedOut
from tests.dashboard.conftest import SCRIPT, log_in
from tests.support.servers import Server

PACKAGE = Path(SCRIPT).parent


@pytest.fixture(autouse=True)
def behind_gate() -> None:
    """Replaces the fixture that all other tests of this folder use, and does nothing."""


@pytest.fixture(autouse=True)
def site(server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site with people, as the open mode would show it."""
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    monkeypatch.delenv("PRESENCE_DASHBOARD_ACCESS", raising=False)
    st.cache_resource.clear()
    log_in(presence, 3)


def scripts() -> list[Path]:
    """The files that do something when Streamlit runs them; the other files only define names."""

    def acts(script: Path) -> bool:
        body = ast.parse(script.read_text("utf-8")).body
        return any(isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) for line in body)

    return [script for script in sorted(PACKAGE.rglob("*.py")) if acts(script)]


def test_each_page_is_such_a_script() -> None:
    pages = {"live", "sessions", "person", "blocks", "history", "report", "health", "staff", "handbook"}
    assert {script.stem for script in scripts()} == {"main", *pages}


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.stem)
def test_no_script_draws_more_than_the_sentence(script: Path) -> None:
    app = AppTest.from_file(str(script), default_timeout=30)
    app.query_params["person"] = "user00"
    drawn = [(node.type, getattr(node, "value", None)) for node in app.run() if not isinstance(node, Block)]
    assert drawn == [("error", texts.NO_GATE)]


@pytest.mark.parametrize(
    "act",
    [
        lambda: access.current(),
        lambda: access.require("people", action="search"),
        lambda: kick_and_block.unblock(open_store().presence, "user00", "a reason"),
        lambda: privacy.erase_person(open_store().presence, "user00", "a reason"),
    ],
)
def test_no_action_is_done(act: Callable[[], object], presence: Presence) -> None:
    assert not access.may("counts")
    with pytest.raises((Denied, SignedOut), match=texts.NO_GATE[:40]):
        act()
    assert presence.counts().sessions == 3
