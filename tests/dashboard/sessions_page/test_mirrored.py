"""What staff read after a kick of sessions that are mirrored from the site's own store."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_core.operations.mirror import reports
from presence_dashboard import texts
from tests.dashboard.conftest import confirm, log_in, tick, toasts

REPORT = {
    "store": "shop", "hears": "scans", "behind": 0.2, "sessions": 1, "without_user": 0, "skipped": 0, "waiting": 0,
    "problem": "",
}  # fmt: skip


def report(presence: Presence, name: str, **values: Any) -> str:
    """A mirror of this name reports. Returns what the ids of its sessions begin with."""
    presence.internal.run(reports.report(presence.internal.context, name, REPORT | values))
    return next(status.id_prefix for status in presence.mirrors() if status.name == name)


def kick_first(app: AppTest) -> str:
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    confirm(app)
    return toasts(app)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, texts.SITE_ENDS_SOON),
        ({"problem": "away"}, texts.SITE_ENDS_LATER),
        ({"stopped": True}, texts.SITE_ENDS_LATER),
    ],
    ids=["mirrored", "waits", "stopped"],
)
def test_after_a_kick_staff_read_that_the_session_has_yet_to_end_at_the_site(
    app: AppTest, presence: Presence, values: dict[str, Any], sentence: str
) -> None:
    report(presence, "another", stopped=True)
    prefix = report(presence, "shop", **values)
    presence.login_many([{"uid": "ada", "session_id": f"{prefix}0123456789"}], imported=True)
    assert sentence in kick_first(app)


def test_of_a_mirrored_session_the_person_page_offers_a_kick_and_nothing_that_the_site_decides(
    app: AppTest, presence: Presence
) -> None:
    prefix = report(presence, "shop")
    presence.login_many([{"uid": "ada", "session_id": f"{prefix}0123456789"}], imported=True)
    app.query_params["q"] = "ada"
    app.switch_page("views/person/person.py").run()
    offered = [button.key or "" for button in app.button if not button.disabled]
    assert f"kick-{prefix}0123456789" in offered
    assert not [key for key in offered if key.startswith(("timeouts-", "sign-in-"))]


def test_a_kick_of_a_session_of_ours_says_nothing_of_a_mirror(app: AppTest, presence: Presence) -> None:
    report(presence, "shop")
    log_in(presence, 1)
    shown = kick_first(app)
    assert "Kicked" in shown
    assert "site" not in shown


def test_the_pages_say_how_many_kicked_sessions_have_yet_to_end_at_the_site(app: AppTest, presence: Presence) -> None:
    report(presence, "shop", waiting=3)
    presence.login("ada")
    app.run()
    shown = [element.value for element in app.caption]
    assert any("3 kicked sessions have not ended at the site yet." in text for text in shown), shown
