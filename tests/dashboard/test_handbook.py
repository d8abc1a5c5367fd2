"""The handbook: the page shows every chapter with its picture, and names buttons as the dashboard does."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from presence_dashboard import access
from presence_dashboard.roles import Actor
from presence_dashboard.views.handbook import chapters
from tests.dashboard.wire import ROOT

TEXTS = "\n".join(path.read_text("utf-8") for path in (ROOT / "presence_dashboard/texts").glob("*.py"))


def test_every_chapter_is_in_the_list_and_has_its_picture() -> None:
    files = {path.stem for path in chapters.FOLDER.glob("*.md")}
    assert sorted(chapters.names()) == sorted(files)
    for name in chapters.names()[1:]:
        pictures = [part for part in chapters.parts(name) if isinstance(part, chapters.Picture)]
        assert [picture.path.is_file() for picture in pictures] == [True], name


@pytest.mark.parametrize("name", chapters.names())
def test_a_chapter_names_buttons_as_the_dashboard_does(name: str) -> None:
    """Bold and italic words are labels, except bold ones that begin a paragraph. A number stands for any."""
    text = "".join(part for part in chapters.parts(name) if isinstance(part, str))
    text = re.sub(r"^(- )?\*\*.+?\*\*", "", text, flags=re.MULTILINE)
    labels = re.findall(r"\*{1,2}([^*\n]+)\*{1,2}", text)
    patterns = {label: re.sub(r"\d+", r"\\S+", re.escape(label)) for label in labels}
    assert [label for label, pattern in patterns.items() if not re.search(pattern, TEXTS, re.IGNORECASE)] == []


def test_the_page_shows_the_chapter_of_its_address_to_every_role(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_actor", lambda *, touch, fresh: Actor("sam", "stats"))
    app.run()
    app.switch_page("views/handbook/handbook.py").run()
    assert not app.exception
    assert [header.value for header in app.header] == [chapters.title(chapters.FIRST)]
    app.button(key="chapter-stolen_device").click().run()
    assert app.query_params["page"] == "stolen_device"
    assert [header.value for header in app.header] == ["A stolen or lost device"]
    assert any("Lost device" in text.value for text in app.markdown)
    app.query_params["page"] = "../../../README"
    app.run()
    assert [header.value for header in app.header] == [chapters.title(chapters.FIRST)]


def test_a_wheel_has_the_handbook_inside_the_package() -> None:
    assert '"docs/use/handbook" = "presence_dashboard/handbook"' in (ROOT / "pyproject.toml").read_text()
