"""What the search box offers besides what it found: names, filters, tickets. An exact user ID comes first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence, Settings
from presence_dashboard import texts
from tests.dashboard.conftest import click, open_again, open_page, table, uids
from tests.dashboard.sessions_page.test_search import VIEWER, act_as, search
from tests.support.place_file import city, write_place_file
from tests.support.servers import Server


def hints(app: AppTest) -> list[str]:
    assert not app.exception
    return [button.label for button in app.button if (button.key or "").startswith(("meant-", "hint-"))]


def test_a_name_with_mistakes_offers_the_name_that_was_meant(app: AppTest, presence: Presence) -> None:
    presence.login("u1", name="John Smith")
    search(app.run(), "Jonh Smtih")
    assert hints(app) == ["**John Smith**"]
    assert texts.DID_YOU_MEAN in [element.value for element in app.markdown]
    click(app, "meant-0")
    assert app.text_input(key="q").value == "John Smith"
    assert uids(app) == ["u1"]
    assert hints(app) == []


def test_no_name_is_offered_to_a_role_that_does_not_see_names(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence.login("u1", name="John Smith", device="Phone")
    act_as(monkeypatch, VIEWER)
    for text in ("Jonh Smtih", "phone"):
        search(app.run(), text)
        assert hints(app) == []


def test_the_pages_of_persons_and_history_offer_the_same(app: AppTest, presence: Presence) -> None:
    presence.login("u1", name="John Smith")
    for page, box in (("person", "q"), ("history", "person")):
        opened = open_page(page)
        opened.text_input(key=box).set_value("Jonh Smtih").run()
        assert hints(opened) == ["**John Smith**"], page
        click(opened, "meant-0")
        assert opened.text_input(key=box).value == "John Smith"


def test_the_person_with_exactly_this_user_id_comes_first_and_is_marked(app: AppTest, presence: Presence) -> None:
    now = time.time()
    others = [
        {"uid": f"other-{n}", "aliases": [f"20001-{n}"], "login_at": now - n, "last_seen": now} for n in range(102)
    ]
    exact = [{"uid": "20001", "name": "Ada", "login_at": now - 500 - n, "last_seen": now} for n in range(2)]
    presence.login_many(others + exact, imported=True)
    search(app.run(), "20001")
    found = uids(app)
    assert found[:3] == ["20001", "20001", "other-0"]
    assert table(app).column("status")[:3] == [texts.EXACT_MATCH, texts.EXACT_MATCH, ""]
    seen = list(found)
    for page in (2, 3):
        before = len(seen)
        click(app, "older")
        seen += uids(app)
        [place] = [text.value for text in app.markdown if f"page {page}" in text.value]
        assert place.startswith(f"{before + 1}–{len(seen)} of "), place
    assert sorted(seen) == sorted([*(f"other-{n}" for n in range(102)), "20001", "20001"]), "each is listed once"
    search(app, "other-7")
    assert uids(app)[0] == "other-7"
    search(app, "other-77")
    assert "status" not in table(app).columns, "with no other match there is nothing to tell apart"


def test_a_word_of_a_device_or_a_browser_offers_the_filter(app: AppTest, presence: Presence) -> None:
    for n in range(3):
        presence.login(f"u{n}", name=f"Person {n}", device="Ada's iPhone" if n else "Mac", app="shop")
    search(app.run(), "iphone")
    assert hints(app) == [texts.facet_value(texts.labelled("Device", "**Ada's iPhone**"), "2")]
    click(app, "hint-device-Ada's iPhone")
    assert app.text_input(key="q").value == ""
    assert sorted(uids(app)) == ["u1", "u2"]
    search(app, "iphone")
    assert hints(app) == [], "it is chosen"


@pytest.fixture
def travellers(server: Server, tmp_path: Path, presence: Presence) -> None:
    path = write_place_file(tmp_path / "places.mmdb", {"203.0.113.0/24": city("JP", "Tokyo", (36, 140), 64500)})
    settings = Settings(namespace=presence.settings.namespace, place_file=str(path))
    with Presence.from_url(server.url, settings=settings) as site:
        site.login("u1", name="Ada", ip="203.0.113.7")
        site.login("u2", name="Bea", ip="198.51.100.7")


def test_a_city_or_a_country_offers_the_filter(app: AppTest, travellers: None) -> None:
    search(app.run(), "tokyo")
    assert hints(app) == [texts.labelled("City", "**Tokyo**")]
    click(app, "hint-city-Tokyo")
    assert uids(app) == ["u1"]
    assert app.button(key="chip-city").label == texts.labelled("City", "**Tokyo**")
    click(app, "chip-city")
    search(app, "jp")
    assert hints(app) == [texts.facet_value(texts.labelled("Country", "**JP**"), "1")]
    search(app, "Osaka")
    assert hints(app) == []


def test_a_ticket_finds_its_actions(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_TICKET_URL", "https://tickets.example.com/{ticket}")
    presence.block("u1", by="dana", reason="fraud", ticket="T-4711")
    for typed in ("t-4711", "https://tickets.example.com/T-4711?tab=1"):
        search(open_again(app), typed)
        [link] = [part for part in app.get("page_link") if "words=" in part.proto.query_string]
        assert link.proto.label == texts.ticket_actions("**T-4711**")
        assert link.proto.query_string == "view=staff&words=T-4711"
    search(app, "T-4712")
    assert not [part for part in app.get("page_link") if "words=" in part.proto.query_string]
