"""The logins behind a part of the chart of the Live page: how they split, who, and the way to Sessions and History."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from presence_core import Presence, Settings
from presence_dashboard import access, texts
from presence_dashboard.components.session_facts import time_of_day
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.roles import Actor
from presence_dashboard.views.live import span_logins
from presence_dashboard.views.live.span_logins import Span, SpanState, span_at
from tests.dashboard.conftest import click, open_page, send, table, uids
from tests.dashboard.pages.test_live_chart import links, pick
from tests.dashboard.pages.test_live_page import captions, fresh, opened, sample
from tests.support.fair_clock import PATIENT
from tests.support.place_file import write_place_file
from tests.support.samples import write_samples
from tests.support.servers import Server

TOKYO, LYON = "203.0.113.", "192.0.2."


@contextmanager
def clock(presence: Presence, at: float) -> Iterator[None]:
    presence.internal.context.now = str(round(at * 1000))
    yield
    presence.internal.context.now = ""


@pytest.fixture
def spike(server: Server, tmp_path: Path) -> int:
    """Four people log in within a minute, three from Tokyo; one of them leaves later. In this minute carl is kicked,
    after it zoe logs in. Returns the begin of the minute, Unix seconds."""
    begin = int(time.time()) // 60 * 60 - 300
    places = str(write_place_file(tmp_path / "places.mmdb"))
    with Presence.from_url(server.url, Settings(timeout=PATIENT, place_file=places)) as presence:

        def login(uid: str, at: float, ip: str, device: str, device_id: str | None = None) -> Any:
            with clock(presence, at):
                device_id = device_id or f"device-of-{uid}"
                return presence.login(
                    uid, name=f"[{uid}]", ip=ip, device=device, app="web", device_id=device_id
                ).session

        for uid in ("ada", "carl"):
            login(uid, begin - 900, f"{LYON}7", "Mac")
        login("eve", begin + 10, f"{TOKYO}7", "PC")
        fay = login("fay", begin + 20, f"{TOKYO}8", "PC")
        login("ada", begin + 30, f"{TOKYO}9", "PC", "another-device")
        login("bob", begin + 40, f"{LYON}8", "Mac")
        with clock(presence, begin + 50):
            presence.kick("carl", by="dana", reason="Shared account")
        login("zoe", begin + 60, f"{TOKYO}7", "PC")
        with clock(presence, begin + 120):
            presence.logout("fay", fay.session_id)
        write_samples(presence, begin, [(5, 5, n) for n in range(8)])
    return begin


def buttons(app: AppTest, field: str) -> list[str]:
    return [button.label for button in app.button if (button.key or "").startswith(f"span-{field}-")]


def headline(app: AppTest) -> str:
    [found] = [text.value for text in app.markdown if " between " in text.value and "login" in text.value]
    return found.strip("*")


def people(app: AppTest) -> list[str]:
    """The people of the one list of logins and ends, which is that of the span."""
    return [dict(parse_qsl(query))["q"] for _, query in links(app) if query.startswith("q=")]


def address_of(app: AppTest, label: str) -> dict[str, str]:
    [query] = [query for shown, query in links(app) if shown == label and "kicked" not in query]
    return dict(parse_qsl(query))


def test_a_click_splits_the_logins_of_a_minute_and_each_value_narrows_them(app: AppTest, spike: int) -> None:
    pick(opened(app), picked=[{"at": (spike + 20) * 1000}])
    since, until = (datetime.fromtimestamp(at, UTC) for at in (spike, spike + 60))
    assert headline(app) == texts.live_logins(4, time_of_day(since), time_of_day(until))
    assert buttons(app, "country") == ["**JP** · 3", "**FR** · 1"], "the largest first"
    assert buttons(app, "network") == ["`Example Net (AS64510)` · 3", "`Example Telecom (AS64500)` · 1"]
    assert buttons(app, "device") == ["**PC** · 3", "**Mac** · 1"]
    assert buttons(app, "app") == ["**web** · 4"]
    assert buttons(app, "flag") == [f"{texts.FLAG_DISTANT} · 1", f"{texts.FLAG_NEW_DEVICE} · 1"]
    assert people(app) == ["carl", "bob", "ada", "fay", "eve"], "logins and ends of the minute, and no others"

    click(app, "span-country-JP")
    assert headline(app) == texts.live_logins(3, time_of_day(since), time_of_day(until))
    assert (buttons(app, "country"), buttons(app, "device")) == ([], ["**PC** · 3"])
    assert people(app) == ["ada", "fay", "eve"]
    click(app, "span-flag-new_device")
    assert people(app) == ["ada"]
    listed = open_page("sessions", **address_of(app, texts.LIVE_SPAN_SESSIONS))
    assert uids(listed) == ["ada"]

    click(app, "span-all-flag")
    assert people(app) == ["ada", "fay", "eve"]
    assert sorted(uids(open_page("sessions", **address_of(app, texts.LIVE_SPAN_SESSIONS)))) == ["ada", "eve"]
    history = open_page("history", **address_of(app, texts.LIVE_KICKS_HISTORY))
    assert table(history).column("uid") == ["carl"]
    pick(app, picked=[{"at": (spike + 60) * 1000}])
    assert people(app) == ["zoe"], "another minute is not narrowed"
    click(app, "span-close")
    assert buttons(app, "country") == []


def test_a_zoom_shows_the_logins_of_its_range_to_the_second(app: AppTest, spike: int) -> None:
    app.query_params["from"], app.query_params["to"] = str(spike), str(spike + 70)
    opened(app)
    assert buttons(app, "country") == ["**JP** · 4", "**FR** · 1"]
    assert "span-close" not in {button.key for button in app.button}, "the buttons of the range lead back"
    address = address_of(app, texts.LIVE_SPAN_SESSIONS)
    listed = open_page("sessions", **address)
    assert sorted(uids(listed)) == ["ada", "bob", "eve", "zoe"]
    end = datetime.fromtimestamp(spike + 70, UTC)
    assert f"to {end:%Y-%m-%d %H:%M:%S}" in " ".join(button.label for button in listed.button)


def test_a_bar_of_the_logins_can_be_clicked_too(app: AppTest, spike: int) -> None:
    app.query_params["split"] = "logins"
    opened(app)
    assert "Logins: in all 7. One bar = 10 s." in captions(app)
    chart = app.get("vega_lite_chart")[1].proto
    selection = json.dumps({"selection": {"picked": [{"at": (spike + 30) * 1000}]}})
    send(app, WidgetState(id=chart.id, string_value=selection))
    assert people(app) == ["carl", "bob", "ada", "fay", "eve"]
    pick(app, picked=[{"at": (spike + 60) * 1000}])
    assert people(app) == ["zoe"], "the last click counts"


def test_a_role_sees_of_the_logins_what_it_sees_elsewhere(
    app: AppTest, spike: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = Actor("vic", "viewer", frozenset({"name", "ip"}))
    monkeypatch.setattr(access, "current", lambda touch=True: viewer)
    pick(opened(app), picked=[{"at": (spike + 20) * 1000}])
    assert buttons(app, "country") == buttons(app, "network") == buttons(app, "device") == []
    assert buttons(app, "app") == ["**web** · 4"]
    assert ("**ada**", "q=ada") in links(app)
    shown = captions(app) + str(links(app))
    assert not [word for word in ("Tokyo", "Lyon", "[ada]", "Mac") if word in shown]
    monkeypatch.setattr(access, "current", lambda touch=True: Actor("sam", "stats"))
    fresh(app)
    pick(app, picked=[{"at": (spike + 20) * 1000}])
    assert links(app) == []
    assert texts.LIVE_KEY_LOGINS not in captions(app)


def test_a_minute_with_more_logins_than_are_read_says_so(
    app: AppTest, spike: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_logins, "MOST", 2)
    pick(opened(app), picked=[{"at": (spike + 20) * 1000}])
    assert headline(app).startswith("5 logins"), "as counted by the samples"
    assert len([key for key in people(app) if key != "carl"]) == 3
    assert texts.live_span_most("1,000") in captions(app)


def test_an_outage_leaves_the_logins_that_were_read(spike: int, server: Server, app: AppTest) -> None:
    opened(app)
    store, begin = open_store(), datetime.fromtimestamp(spike, UTC)
    state = SpanState(Span(begin, begin + timedelta(seconds=60)))
    state.load(store)
    before = state.reading.value
    assert before is not None
    assert [record.uid for record in before.logins] == ["bob", "ada", "fay", "eve"]
    server.pause()
    state.reading = Reading(before)  # as later
    state.load(store)
    assert (state.reading.value, state.reading.failure is None) == (before, False)
    server.resume()
    store.counts(fresh=True)
    state.reading = Reading(before)
    state.load(store)
    assert state.reading.failure is None


@pytest.mark.parametrize(("step", "seconds", "begin"), [(10, 60, 120), (60, 60, 120), (300, 300, 0), (3_600, 3_600, 0)])
def test_a_click_means_a_whole_minute_or_the_step_of_the_chart(step: int, seconds: int, begin: int) -> None:
    samples = [sample(n * step, step=step) for n in range(3)]
    first = samples[0].at
    span = span_at(samples, first + timedelta(seconds=130))
    assert (span.since - first, span.until - span.since) == (timedelta(seconds=begin), timedelta(seconds=seconds))
