"""The catalogues of all texts: complete, with the same placeholders, and compiled. And the choice of a language."""

from __future__ import annotations

import ast
import io
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from gettext import GNUTranslations
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from babel.messages import Catalog, Message
from babel.messages.checkers import checkers
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

import presence_core
import presence_dashboard
from presence_core.schema.endings import END_COUNTS, END_REASONS, KEEPS, WHY
from presence_core.text.languages import LANGUAGES, accepted, translations
from presence_dashboard import language, texts
from presence_dashboard.texts import english
from tests.support.extract_texts import Ids, extract_texts

ROOT = Path(presence_core.__file__).parents[1]
TRANSLATED = [name for name in LANGUAGES if name != "en"]
PACKAGES = {
    "your_devices": Path(presence_core.__file__).parent / "web" / "your_devices",
    "notices": Path(presence_core.__file__).parent / "web" / "notices",
    "dashboard": Path(presence_dashboard.__file__).parent,
}
"""Domain of the catalogues → the package with its texts."""

FACTS = Path(presence_core.__file__).parent / "schema" / "audit_facts.py"
"""Texts of the library that the dashboard shows."""

CATALOGUES = list(product(PACKAGES, TRANSLATED))

MARKDOWN = re.compile(r":[a-z]+(?:-badge)?\[|:material/\w+:|\*\*|`[^`]*`|\]\(\{\w+\}\)")


@cache
def extracted(domain: str) -> set[Ids]:
    """The texts, found as `make catalogues` finds them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["babel"]
    facts = extract_texts(io.BytesIO(FACTS.read_bytes()), (), (), {}) if domain == "dashboard" else ()
    return {text for _line, _keyword, text, _comments in facts} | {
        message
        for _file, _line, message, _comments, _context in extract_from_dir(
            str(PACKAGES[domain]),
            [(mapping["pattern"], settings["extractors"][mapping["method"]]) for mapping in settings["mappings"]],
            {mapping["pattern"]: mapping for mapping in settings["mappings"]},
        )
        if message != ""
    }


def catalogue(domain: str, name: str) -> Catalog:
    return _catalogue(PACKAGES[domain] / "locale" / name / "LC_MESSAGES" / f"{domain}.po")


@cache
def _catalogue(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=path.parts[-3])


def messages(domain: str, name: str) -> Iterator[tuple[Message, tuple[str, ...], tuple[str, ...]]]:
    """The messages with their English and their translated forms."""
    for message in catalogue(domain, name):
        if message.id:
            ids, forms = (
                value if isinstance(value, list | tuple) else (value,) for value in (message.id, message.string)
            )
            yield message, tuple(map(str, ids)), tuple(map(str, forms))


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"%\(\w+\)[sd]|%|\{\w*\}", text))


# -- Catalogues -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", PACKAGES)
def test_there_is_a_catalogue_for_each_language(domain: str) -> None:
    assert {path.name for path in (PACKAGES[domain] / "locale").iterdir()} == set(TRANSLATED)
    assert set(TRANSLATED) == {"de", "es", "fr", "ja", "zh_Hans"}


@pytest.mark.parametrize(("domain", "name"), CATALOGUES)
def test_every_text_is_translated_and_none_is_left_over(domain: str, name: str) -> None:
    """After a change of a text: make catalogues, translate what is empty, make catalogues."""
    found = {ids[0] if len(ids) == 1 else ids for _message, ids, _forms in messages(domain, name)}
    singular = {ids[0] for ids in extracted(domain) if isinstance(ids, tuple)}  # also as a text of its own
    assert found == extracted(domain) - singular
    assert len(found) > (10 if domain == "notices" else 50)
    assert not catalogue(domain, name).obsolete
    for message, ids, forms in messages(domain, name):
        assert all(forms), ids
        assert not message.fuzzy, ids
        assert len(forms) == (catalogue(domain, name).num_plurals if message.pluralizable else 1)


@pytest.mark.parametrize(("domain", "name"), CATALOGUES)
def test_placeholders_agree(domain: str, name: str) -> None:
    """A form for exactly one may leave the number out. In French, that form is also for none."""
    only_one = str(catalogue(domain, name).plural_expr) == "(n != 1)"
    for message, ids, forms in messages(domain, name):
        wanted = [placeholders(ids[-1])]
        if only_one and len(ids) > 1:
            wanted.append(placeholders(ids[0]))
        assert placeholders(forms[-1]) == wanted[0], ids
        assert all(placeholders(form) in wanted for form in forms), ids
        for check in checkers:
            check(catalogue(domain, name), message)


@pytest.mark.parametrize(("domain", "name"), CATALOGUES)
def test_markdown_commands_and_spaces_survive_the_translation(domain: str, name: str) -> None:
    for _message, ids, forms in messages(domain, name):
        for form in forms:
            assert sorted(MARKDOWN.findall(form)) == sorted(MARKDOWN.findall(ids[-1])), ids
            assert form == form.strip(), ids
            assert form.count("\n") == ids[-1].count("\n"), ids


@pytest.mark.parametrize(("domain", "name"), CATALOGUES)
def test_the_compiled_catalogue_is_that_of_the_text(domain: str, name: str) -> None:
    made = io.BytesIO()
    write_mo(made, catalogue(domain, name))
    made.seek(0)
    fresh: Any = GNUTranslations(made)
    stored: Any = translations(PACKAGES[domain] / "locale", domain, name)
    assert stored._catalog == fresh._catalog, "run make catalogues"


# -- The dashboard ----------------------------------------------------------------------------------------------------

IN_ONE_TABLE = re.compile("LABEL_|FACT_|COLUMN_|HISTORY_(WHEN|STATE|KICKED|TOTAL|PROGRESS)|REPORT_WHEN")


@pytest.mark.parametrize("name", TRANSLATED)
def test_labels_that_differ_in_english_differ_in_each_language(name: str) -> None:
    """A table has its columns by label: two of one label would be one column."""
    labels = {text for label, text in vars(english).items() if IN_ONE_TABLE.match(label)}
    with language.in_language(name):
        assert len({language.gettext(label) for label in labels}) == len(labels) > 20


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_words_for_the_browser_have_their_parts(name: str) -> None:
    with language.in_language(name):
        assert len(texts.TABLE_WORDS["units"].split()) == 4
        before, after = texts.CONNECTION_LOST.split("{1}")
        assert "{0}" in before + after


def test_a_text_is_in_the_language_of_the_page_and_its_key_in_english() -> None:
    assert (texts.KICK, texts.BLOCK_FOR) == (english.KICK, english.BLOCK_FOR) == ("Kick", "Block new logins")
    with language.in_language("de"):
        assert str(texts.KICK) == "Beenden"
        assert english.KICK == "Kick"
        assert texts.DENSITIES == {"comfortable": "Luftig", "compact": "Kompakt"}
        assert texts.PHRASES.keys() == english.PHRASES.keys()
        assert (texts.confirm(1), texts.confirm(2)) == ("1 Sitzung beenden", "2 Sitzungen beenden")
        with language.in_language("ja"):
            assert texts.confirm(1) != texts.confirm(2)
    assert texts.KICK == "Kick"


def test_the_language_is_read_once_for_each_page_and_after_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    pages, found = [object(), object()], iter(("de", "fr", "ja"))
    monkeypatch.setattr(language, "get_script_run_ctx", lambda suppress_warning: pages[0])
    monkeypatch.setattr(language, "_chosen", lambda choice, header: next(found))
    assert [language.current(), language.current()] == ["de", "de"]
    del pages[0]
    assert [language.current(), language.current()] == ["fr", "fr"]
    language.choose()
    assert [language.current(), language.current()] == ["ja", "ja"]
    language.choose()  # later tests have no page


def test_numbers_have_the_separators_of_the_language() -> None:
    assert (language.number(1_234_567), language.decimal(1_234.5, 1)) == ("1,234,567", "1,234.5")
    with language.in_language("de"):
        assert (language.number(1_234_567), language.decimal(1_234.5, 1)) == ("1.234.567", "1.234,5")
    with language.in_language("fr"):
        assert language.number(1_234) == "1\u202f234"


def test_no_constant_keeps_a_text_in_the_language_of_one_viewer() -> None:
    """A text in a constant would have the language of the first viewer; ``english`` has no such danger."""
    root = PACKAGES["dashboard"]
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in sorted(root.rglob("*.py"))
        for node in _when_imported(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "texts"
    ]
    assert found == []


def _when_imported(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a module that run when it is imported: all but the bodies of functions."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            given = [*part.args.defaults, *(value for value in part.args.kw_defaults if value)]
            for value in [*given, *getattr(part, "decorator_list", ())]:
                yield from (value, *_when_imported(value))
        else:
            yield from (part, *_when_imported(part))


def test_a_sentence_gets_each_of_its_values_wherever_it_is_shown() -> None:
    calls = [
        (f"{path.name}:{node.lineno} {name}", getattr(english, name).values, node)
        for path in sorted(PACKAGES["dashboard"].rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        for prefix, _, name in [ast.unparse(node.func).rpartition(".")]
        if (prefix == "texts" or path.parent.name == "texts")
        and isinstance(getattr(english, name, None), language.Sentence | language.Counted)
    ]
    assert len(calls) > 100
    assert [place for place, values, call in calls if len(call.args) != len(values) or call.keywords] == []


def test_a_sentence_has_its_values_in_the_order_of_its_english_text() -> None:
    found = language.Sentence("{shown} of {total}: {shown}")
    assert found("1", "2") == "1 of 2: 1"
    counted = language.Counted("{who} left", "{who} and {count} others left")
    assert (counted(1, "Dana"), counted(2, "Dana")) == ("Dana left", "Dana and 2 others left")
    with pytest.raises(ValueError, match="zip"):
        found("1")


def test_no_function_of_texts_has_an_english_sentence_that_is_not_translated() -> None:
    found = [
        f"{path.name}: {ast.unparse(part)}"
        for path in sorted((PACKAGES["dashboard"] / "texts").glob("*.py"))
        for function in ast.parse(path.read_text("utf-8")).body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        for part in (node.values if isinstance(node, ast.JoinedStr) else [getattr(node, "value", None)])
        if isinstance(node, ast.JoinedStr | ast.Return)
        and isinstance(part, ast.Constant)
        and re.search(r"[A-Za-z]{2,} [a-z]+", str(part.value))
    ]
    assert found == []


def test_what_is_counted_has_words_for_the_middle_of_a_sentence() -> None:
    counted = {"logins", *english.LIVE_REASONS, *english.LIVE_ODD, *english.LIVE_FAILED_COLUMN}
    assert english.LIVE_IN_A_LIST.keys() == counted


def test_every_end_has_a_text_on_each_page() -> None:
    reasons = set(END_REASONS)
    for by_reason in (english.LIVE_ENDED, english.ENDED_ROWS, english.ENDED_BEFORE):
        assert by_reason.keys() == reasons
    assert {"", *reasons} < english.HISTORY_HOWS.keys() < {"", *reasons, *WHY}
    assert english.LIVE_ICONS_CODE.keys() == reasons | {"login"}
    assert english.HISTORY_CAUSES.keys() == english.HAPPENED_ENDS.keys() == WHY.keys()
    assert english.LIVE_REASONS.keys() == set(END_COUNTS)
    assert english.RETENTION_ENDED.keys() == set(KEEPS) <= english.RETENTION_KINDS.keys()


def test_a_text_of_two_arguments_needs_both() -> None:
    with pytest.raises(AssertionError, match="line 1"):
        list(extract_texts(io.BytesIO(b'ngettext("one", count)'), (), (), {}))


# -- languages --------------------------------------------------------------------------------------------------------

ACCEPTED = {
    "": "en", "de": "de", "DE-at": "de", "fr-CA, fr;q=0.9": "fr", "pt-BR,pt;q=0.9,es;q=0.2": "es",
    "en;q=0.2, ja;q=0.9": "ja", "de;q=0, fr;q=0.1": "fr", "zh": "zh_Hans", "zh-CN": "zh_Hans", "zh-Hans-SG": "zh_Hans",
    "zh-TW": "en", "zh-Hant-HK, de;q=0.3": "de", "*": "en", "de;q=x": "en", "de;q=9": "en", ";;,,=": "en",
    "../../etc/passwd": "en", "de" * 5000: "en", "nl": "en", "deu": "en",
}  # fmt: skip


@pytest.mark.parametrize(("header", "expected"), ACCEPTED.items(), ids=[header[:20] for header in ACCEPTED])
def test_the_language_is_the_one_that_the_browser_likes_best(header: str, expected: str) -> None:
    assert accepted(header) == expected
