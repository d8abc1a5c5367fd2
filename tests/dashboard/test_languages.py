"""Pages in the languages of their viewers, at once and from the same process."""

from __future__ import annotations

from html import unescape

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from presence_core import Presence, Unavailable
from presence_dashboard import texts
from presence_dashboard.data.store import open_store
from presence_dashboard.gate import html_pages
from presence_dashboard.language import CHOICE, VARIABLE, InLanguage, in_language
from presence_dashboard.texts import english
from tests.dashboard.conftest import SCRIPT, confirm, log_in, table, tick, toasts


def viewer(language: str, page: str = "") -> AppTest:
    made = AppTest.from_file(SCRIPT, default_timeout=30)
    made.context["locale"] = language
    if page:
        made.switch_page(f"views/{page}/{page}.py")
    return made


def labels(app: AppTest) -> set[str]:
    assert not app.exception
    return {column["label"] for column in table(app).data["columns"]}


def test_two_viewers_each_see_their_own_language(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    for _ in range(2):  # again from what they share
        for made, language in ((app, "en"), (viewer("de-DE"), "de"), (viewer("ja"), "ja"), (viewer("nl"), "en")):
            made.run()
            with in_language(language):
                assert {texts.LABEL_LOGIN, texts.LABEL_EXPIRES} <= labels(made)
                assert texts.online_now("1", "1") in [text.value for text in made.markdown]
    assert texts.LABEL_LOGIN == "Login"


@pytest.mark.parametrize("page", ["live", "person", "blocks", "history", "report", "health", "staff", "handbook"])
@pytest.mark.parametrize("language", ["de", "ja"])
def test_each_page_runs_in_another_language(app: AppTest, presence: Presence, page: str, language: str) -> None:
    login = presence.login("user01", name="Ada", device="Mac")
    presence.kick("user01", login.session.session_id, by="dana", reason="test")
    presence.block("user02", by="dana", reason="test")
    made = viewer(language, page)
    made.query_params["q"] = "user01"
    assert not made.run().exception
    with in_language(language):  # and changes to a third one
        made.selectbox(key=CHOICE).select("fr").run()
    assert not made.exception
    with in_language("fr"):
        assert made.selectbox(key=CHOICE).label == texts.LANGUAGE
        assert not made.run().exception


def test_a_kick_in_german(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    german = viewer("de-AT")
    with in_language("de"):  # for what the test sends, as the browser would
        tick(german.run(), 0)
        german.button(key="kick-selected").click().run()
        [block] = [box for box in german.selectbox if box.label == "Neue Anmeldungen sperren"]
        assert block.options[1] == "Für 1 Stunde"
        block.select(english.BLOCK_HOUR).run()
        confirm(german)
    assert "Beendet: " in toasts(german)
    assert presence.blocked("user00") is not None


def test_a_failure_that_all_tabs_share_is_shown_in_the_language_of_each(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.run()

    def counts(_: Presence) -> None:
        raise Unavailable("no answer", "x")

    monkeypatch.setattr(Presence, "counts", counts)
    reading = open_store().counts(fresh=True)
    assert reading.cause == english.ERROR_AWAY
    with in_language("de"):
        assert reading.cause == texts.ERROR_AWAY != english.ERROR_AWAY
        assert reading.failure == f"{texts.ERROR_AWAY} {texts.TRY_LATER}"


def test_the_operator_can_set_one_language_for_all(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 1)
    monkeypatch.setenv(VARIABLE, "de")
    assert "Läuft ab" in labels(viewer("ja").run())
    assert "Läuft ab" in labels(app.run())


def test_the_compared_day_is_in_the_address_in_english(app: AppTest, presence: Presence) -> None:
    german = viewer("de", "live").run()
    with in_language("de"):
        german.button_group(key="ghost").set_value(english.LIVE_GHOST_WEEK).run()
    assert german.query_params["ghost"] in (english.LIVE_GHOST_WEEK, [english.LIVE_GHOST_WEEK])
    assert "Letzte Woche" in german.button_group(key="ghost").options


def test_a_choice_in_the_account_menu_counts_at_once(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    app.run()
    app.selectbox(key=CHOICE).select("de").run()
    assert "Läuft ab" in labels(app)
    with in_language("de"):
        app.selectbox(key=CHOICE).select("browser").run()
    assert "Expires" in labels(app)


def test_the_choice_is_not_offered_where_the_operator_has_made_it(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "en")
    app.run()
    assert CHOICE not in [box.key for box in app.selectbox]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Accept-Language": "de, en;q=0.5"}, "de"),
        ({"Accept-Language": "de", "Cookie": "presence_language=fr"}, "fr"),
        ({"Accept-Language": "de", "Cookie": "presence_language=browser"}, "de"),
        ({"Accept-Language": "de", "Cookie": "presence_language=../x"}, "de"),
        ({}, "en"),
    ],
)
def test_an_answer_of_the_gate_is_in_the_language_of_its_request(headers: dict[str, str], expected: str) -> None:
    async def page(_request: Request) -> Response:
        return html_pages.refused(texts.FOREIGN_HOST)

    client = TestClient(Starlette(routes=[Route("/", page)], middleware=[Middleware(InLanguage)]))
    answer = client.get("/", headers=headers).text
    assert f'<html lang="{expected}">' in answer
    with in_language(expected):
        assert texts.FOREIGN_HOST in unescape(answer)
