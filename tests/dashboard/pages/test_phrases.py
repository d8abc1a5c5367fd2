"""The team's phrases for kicks and blocks, on a real server."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.data.phrases import Phrase, merged
from tests.dashboard.conftest import toasts


@pytest.fixture
def dialog(app: AppTest, presence: Presence) -> AppTest:
    presence.login("dana")
    app.query_params["q"] = "dana"
    app.switch_page("views/person/person.py").run()
    return app.button(key="kick-all").click().run()


def labels(app: AppTest) -> list[str]:
    return list(pills(app).options)


def pills(app: AppTest) -> Any:
    return next(group for group in app.button_group if (group.key or "").startswith("phrase-"))


def edit(app: AppTest, phrase: str | None = None) -> AppTest:
    app.session_state[f"edit-{pills(app).key}"] = True
    app.run()
    if phrase is not None:
        app.selectbox(key=f"edited-{pills(app).key}").select(phrase).run()
    return app


def submit(app: AppTest, label: str) -> AppTest:
    return next(button for button in app.button if button.label == label).click().run()


def field(app: AppTest, field: str, phrase: str | None, value: str) -> None:
    key = f"{pills(app).key}-{field}-{phrase}"
    element = app.text_input(key=key) if field == "name" else app.text_area(key=key)
    element.set_value(value)


def test_a_phrase_of_the_team_is_added_changed_and_deleted_for_everyone(dialog: AppTest, presence: Presence) -> None:
    assert labels(dialog) == list(texts.PHRASES)
    edit(dialog)
    for name, value in (("name", "Fraud"), ("reason", "Fraud case."), ("message", "Bye."), ("with-block", "No."),
                        ("sign-in", "Again.")):  # fmt: skip
        field(dialog, name, None, value)
    submit(dialog, texts.PHRASE_SAVE)
    assert texts.phrase_saved("**Fraud**") in toasts(dialog)
    assert labels(dialog) == [*texts.PHRASES, "Fraud"]
    pills(dialog).set_value("Fraud").run()
    number = pills(dialog).key.removeprefix("phrase-")
    assert dialog.text_area(key=f"reason-{number}").value == "Fraud case."
    assert dialog.text_area(key=f"message-{number}").value == "Bye."
    [saved] = presence.saved_items("phrase")
    assert saved.text == Phrase("Fraud case.", "Bye.", "No.", "", "Again.").text
    edit(dialog, "Fraud")
    field(dialog, "name", "Fraud", "Stolen card")
    submit(dialog, texts.PHRASE_SAVE)
    assert labels(dialog) == [*texts.PHRASES, "Stolen card"]
    edit(dialog, "Stolen card")
    submit(dialog, texts.PHRASE_DELETE)
    assert labels(dialog) == list(texts.PHRASES)
    edit(dialog, "Lost device")
    submit(dialog, texts.PHRASE_DELETE)
    assert "Lost device" not in labels(dialog)
    assert {entry.action for entry in presence.audit()} == {"shared_item"}


def test_a_phrase_needs_a_name_and_a_reason(dialog: AppTest, presence: Presence) -> None:
    edit(dialog)
    field(dialog, "name", None, "Fraud")
    submit(dialog, texts.PHRASE_SAVE)
    assert texts.PHRASE_MISSING in toasts(dialog)
    assert presence.saved_items("phrase") == []


def test_a_phrase_fits_the_block_and_damaged_ones_are_left_out(presence: Presence) -> None:
    phrase = Phrase("r", "kicked", "kicked and blocked")
    assert phrase.messages() == {
        "kick": "kicked", "require_sign_in": "kicked", "kick and block": "kicked and blocked",
        "block": "kicked and blocked",
    }  # fmt: skip
    assert set(Phrase("r", "kicked").messages().values()) == {"kicked"}
    for name, text in (("A", phrase.text), ("B", "{"), ("C", "[]"), ("D", '{"reason": 5, "message": "x"}')):
        presence.save_item("phrase", name, text, by="sam", shared=True)
    assert merged(presence.saved_items("phrase")) == merged(()) | {"A": phrase}
