"""Your devices without a server: translations, tokens, handles, languages."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from functools import cache
from gettext import GNUTranslations
from pathlib import Path
from typing import Any

import pytest
from babel.messages import Catalog
from babel.messages.checkers import checkers
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from presence_core.web.your_devices import csrf, language
from presence_core.web.your_devices.handles import derive_key, find_session, handle_of

PACKAGE = Path(language.__file__).parent
TRANSLATED = [name for name in language.LANGUAGES if name != "en"]

Ids = str | tuple[str, ...]


def texts() -> Iterator[Ids]:
    """What the package passes to gettext and ngettext."""
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("gettext", "ngettext"):
                given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
                assert len(given) == (1 if node.func.attr == "gettext" else 2), f"{path.name}:{node.lineno}"
                yield str(given[0]) if len(given) == 1 else tuple(map(str, given))


@cache
def catalogue(name: str) -> Catalog:
    with (language.LOCALE / name / "LC_MESSAGES" / "your_devices.po").open("rb") as file:
        return read_po(file, locale=name)


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"%\(\w+\)[sd]|%", text))


# -- translations -----------------------------------------------------------------------------------------------------


def test_there_is_a_catalogue_for_each_language() -> None:
    assert {path.name for path in language.LOCALE.iterdir()} == set(TRANSLATED)
    assert set(TRANSLATED) == {"de", "es", "fr", "ja", "zh_Hans"}


@pytest.mark.parametrize("name", TRANSLATED)
def test_every_text_is_translated_and_none_is_left_over(name: str) -> None:
    """After a change of a text: make catalogues, translate what is empty, make catalogues."""
    messages = [message for message in catalogue(name) if message.id]
    assert {message.id for message in messages} == set(texts())
    assert len(messages) > 50
    assert not catalogue(name).obsolete
    for message in messages:
        forms = message.string if isinstance(message.string, tuple) else (message.string,)
        assert all(forms), message.id
        assert not message.fuzzy, message.id
        assert len(forms) == (catalogue(name).num_plurals if message.pluralizable else 1)


@pytest.mark.parametrize("name", TRANSLATED)
def test_placeholders_agree(name: str) -> None:
    for message in catalogue(name):
        if not message.id:
            continue
        ids, forms = (value if isinstance(value, tuple | list) else (value,) for value in (message.id, message.string))
        assert {tuple(placeholders(str(form))) for form in forms} == {tuple(placeholders(str(ids[-1])))}, message.id
        for check in checkers:
            check(catalogue(name), message)


@pytest.mark.parametrize("name", TRANSLATED)
def test_the_compiled_catalogue_is_that_of_the_text(name: str) -> None:
    made = io.BytesIO()
    write_mo(made, catalogue(name))
    made.seek(0)
    fresh: Any = GNUTranslations(made)
    stored: Any = language.translations(name)
    assert stored._catalog == fresh._catalog, "run make catalogues"


# -- languages --------------------------------------------------------------------------------------------------------

ACCEPTED = {
    "": "en", "de": "de", "DE-at": "de", "fr-CA, fr;q=0.9": "fr", "pt-BR,pt;q=0.9,es;q=0.2": "es",
    "en;q=0.2, ja;q=0.9": "ja", "de;q=0, fr;q=0.1": "fr", "zh": "zh_Hans", "zh-CN": "zh_Hans", "zh-Hans-SG": "zh_Hans",
    "zh-TW": "en", "zh-Hant-HK, de;q=0.3": "de", "*": "en", "de;q=x": "en", "de;q=9": "en", ";;,,=": "en",
    "../../etc/passwd": "en", "de" * 5000: "en", "nl": "en", "deu": "en",
}  # fmt: skip


@pytest.mark.parametrize(("header", "expected"), ACCEPTED.items(), ids=[header[:20] for header in ACCEPTED])
def test_the_language_is_the_one_that_the_browser_likes_best(header: str, expected: str) -> None:
    assert language.accepted(header) == expected


# -- tokens and handles -----------------------------------------------------------------------------------------------


def test_a_token_is_for_one_session_one_key_and_twelve_hours() -> None:
    token = csrf.make_token(b"key", "ada:session-1", 1_000_000)
    assert csrf.is_token(b"key", "ada:session-1", token, 1_000_000)
    assert csrf.is_token(b"key", "ada:session-1", token, 1_000_000 + csrf.TOKEN_SECONDS)
    assert not csrf.is_token(b"key", "ada:session-1", token, 1_000_001 + csrf.TOKEN_SECONDS)
    assert csrf.is_token(b"key", "ada:session-1", token, 1_000_000 - 300), "clocks differ a little"
    assert not csrf.is_token(b"key", "ada:session-1", token, 1_000_000 - 301)
    assert not csrf.is_token(b"key", "ada:session-2", token, 1_000_000)
    assert not csrf.is_token(b"yek", "ada:session-1", token, 1_000_000)
    for bad in ("", ".", token.upper(), f"{token}A", token.replace("f4240", "f4241"), "é", f"x{token}", token + "\n"):
        assert not csrf.is_token(b"key", "ada:session-1", bad, 1_000_000), bad


def test_a_handle_names_a_session_of_its_user_only() -> None:
    key = derive_key(b"secret", "handle")
    ids = ["session-1", "session-2", "session-3"]
    made = {handle_of(key, uid, sid) for uid in ("ada", "eve", "ü😀", "a:b") for sid in ids}
    assert len(made) == 12
    assert find_session(key, "ada", ids, handle_of(key, "ada", "session-2")) == "session-2"
    assert find_session(key, "ada", ids, handle_of(key, "eve", "session-2")) is None
    assert find_session(key, "ada", ids, "\ud800") is None
    assert derive_key(b"secret", "csrf") != key
