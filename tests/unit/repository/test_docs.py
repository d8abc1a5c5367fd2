"""The documents are correct: their code runs, their links lead somewhere, and the names that they use exist."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from starlette.requests import Request
from starlette.responses import Response

import presence_core
from presence_core import Presence, Settings, cli
from presence_core.web.rules import Rules
from tests.conftest import Bed, on

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)

pytestmark = pytest.mark.xdist_group("documents")  # they share what they have read

RUN_HERE = ("README.md", "docs/use/quickstart.md")
RUN_ELSEWHERE = {
    "docs/use/recipes.md": "test_recipes",
    "docs/use/move.md": "test_moving",
    "docs/use/frameworks.md": "test_page_blocks",
    "docs/use/frameworks/jwt.md": "test_frameworks",
    "docs/use/testing.md": "test_pytest_plugin",
    "docs/use/fresh_authentication.md": "test_authentication",
    "docs/use/frameworks/fastapi.md": "test_site_pages",
    "docs/use/frameworks/django.md": "test_django_page",
    "docs/use/frameworks/flask.md": "test_site_pages",
    "docs/use/frameworks/asgi_wsgi.md": "test_asgi_wsgi_page",
    "docs/use/frameworks/channels_celery.md": "test_django_connections",
    "docs/run/logging.md": "test_page_blocks",
    "docs/use/odd_logins.md": "test_page_blocks",
    "docs/use/failed_sign_ins.md": "test_page_blocks",
    "docs/use/sign_ins.md": "test_page_blocks",
    "docs/use/moves.md": "test_page_blocks",
    "docs/use/on_behalf.md": "test_page_blocks",
    "docs/use/timeouts.md": "test_page_blocks",
    "docs/use/identity_provider.md": "test_page_blocks",
    "docs/use/your_devices.md": "test_your_devices_blocks",
    "docs/use/open_connections.md": "test_open_blocks",
}
"""The tests that run the blocks of these documents."""

FENCE = re.compile(r"^(?:<!-- not run: (?P<why>.+?) -->\n)?```(?P<kind>\w*)[^\n]*\n(?P<code>.*?)^```", re.M | re.S)
COMMAND = re.compile(r"(?:^|[\s;&|`(])presence (?P<words>[a-z][\w-]*[^\n`;|)]*)")


@cache
def read(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


@cache
def code_of(document: str) -> tuple[str, ...]:
    """All text that is set as code, without the Python that runs: other fences, indented blocks, inline code."""
    text = read(document)
    fences = [match["code"] for match in FENCE.finditer(text) if match["kind"] != "python" or match["why"]]
    rest = FENCE.sub("", text)
    indented = [line.strip() for line in rest.splitlines() if line.startswith("    ")]
    rest = "\n".join(line for line in rest.splitlines() if not line.startswith("    "))
    return (*fences, *indented, *re.findall(r"``? ?([^`]+?) ?``?", rest))


@cache
def source() -> str:
    """All the code of the checkout, as one text."""
    kinds = {".py", ".lua", ".js", ".css", ".html"}
    packages = ("presence_core", "presence_dashboard", "benchmarks", "tests", "docs")
    found = [path for package in packages for path in (ROOT / package).rglob("*") if path.suffix in kinds]
    return "\n".join(path.read_text("utf-8") for path in [ROOT / "dashboard.py", *found])


@cache
def capitalized_words() -> frozenset[str]:
    """The words of the code that begin with a capital letter."""
    return frozenset(re.findall(r"\b[A-Z]\w*", source()))


# -- what is shown runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", [*RUN_HERE, *RUN_ELSEWHERE])
def test_each_block_is_run_or_says_why_it_is_not(document: str) -> None:
    for block in FENCE.finditer(read(document)):
        if document in RUN_HERE and block["kind"] == "sh":
            commands = [line for line in block["code"].splitlines() if not line.startswith("presence ")]
            assert block["why"] or not commands, block["code"]
        elif document in RUN_HERE:
            assert block["kind"] == "python", block["code"]
        else:
            assert not block["why"], f"{document} is run by a test of its own"


def test_no_other_document_has_python_that_no_test_runs() -> None:
    ours = {*RUN_HERE, *RUN_ELSEWHERE}
    for document in DOCUMENTS:
        blocks = [block for block in FENCE.finditer(read(document)) if block["kind"] == "python" and not block["why"]]
        assert not blocks or document in ours, document


@pytest.fixture
def fresh(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """An environment that names a server, and an unused namespace."""
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    monkeypatch.setenv("USER", "sam")
    yield bed
    for key in bed.raw.scan_iter(match="visitors*"):
        bed.raw.delete(key)


def devices_page(site: Any, token: str) -> str:
    """What the browser with this token sees."""
    environ: dict[str, Any] = {"HTTP_COOKIE": f"presence={token}"}
    setup_testing_defaults(environ)
    return b"".join(site(environ, lambda *_: None)).decode()


@on("valkey-sync", "redis7-sync")
def test_the_quickstart_runs_from_beginning_to_end(fresh: Bed, capsys: pytest.CaptureFixture[str]) -> None:
    known: dict[str, Any] = {}
    said = ""
    try:
        for block in FENCE.finditer(read("docs/use/quickstart.md")):
            if block["why"]:
                continue
            if block["kind"] == "python":
                exec(compile(block["code"], "docs/use/quickstart.md", "exec"), known)
                printed = capsys.readouterr().out.splitlines()
                expected_output = re.findall(r"^print\(.+\)  # (.+)$", block["code"], re.M)
                assert printed[len(printed) - len(expected_output) :] == [
                    line.partition(": ")[0] for line in expected_output
                ]
                if "YourDevices(" in block["code"]:
                    said += devices_page(known["site"], known["laptop"].token)
            else:
                for line in block["code"].splitlines():
                    assert cli.main(shlex.split(line, comments=True)[1:]) == 0, line
                said += capsys.readouterr().out
    finally:
        known["presence"].close()
    assert "Emeka Okafor" in said
    assert re.findall(r"<bdi>(.+?)</bdi>", said) == ["laptop", "phone"]
    assert "Signed out by support." in said
    assert "stolen phone" in said
    with Presence.from_env() as presence:
        assert [session.device for session in presence.sessions("ada")] == ["laptop"]
        assert [(end.reason, end.by) for end in presence.ended("ada")] == [("kicked", "sam@support")]


@on("valkey-sync", "redis7-sync")
def test_what_the_readme_shows_runs_as_it_is_printed(fresh: Bed) -> None:
    first, tools = (block["code"] for block in FENCE.finditer(read("README.md")))
    site: dict[str, Any] = {}
    exec(compile(first, "README.md", "exec"), site)
    response = Response()
    site["sign_in"](response)
    with site["presence"] as presence:
        request = Request({"type": "http", "headers": [(b"cookie", response.headers["set-cookie"].encode())]})
        assert site["answer"](request) == "Hello Ada Lovelace"
        newcomer = Request({"type": "http", "headers": []})
        assert site["answer"](newcomer) == "Please sign in."
        laptop = presence.login("user-6", device="laptop")
        site["stolen_phone"]()
        assert site["answer"](request) == "This phone was reported stolen."
        assert presence.validate(laptop.token)
        presence.login("user-8", name="Emeka Okafor", device="iPhone", aliases=["emeka@example.org"])
        exec(compile(tools, "README.md", "exec"), site)
        assert site["session"].name == "Emeka Okafor"
        assert site["preview"].total == 0
        answered = site["answer"](request)
        assert answered.startswith("This phone was reported stolen. Signing in is blocked until 2")
        acts = [(entry.action, entry.uid) for entry in presence.audit(by="sam@support")]
        assert ("kick", "user-6") in acts
        assert ("block", "user-6") in acts
        assert presence.is_online("user-8"), "the block ends no session of others"
        again = presence.login("user-9")
        presence.kick("user-9", by="sam@support", reason="test", message="Please sign in again.")
        request = Request({"type": "http", "headers": [(b"cookie", f"session={again.token}".encode())]})
        assert site["answer"](request) == "Please sign in again."
        assert "revoke_before" not in tools, "pasting the block must not sign out everyone"


@pytest.mark.parametrize("document", [*RUN_HERE, *RUN_ELSEWHERE])
def test_a_name_in_a_block_is_defined_there_or_named_in_the_text(document: str) -> None:
    """Ruff finds undefined names. A reader finds those in the text, as code: `URL` is your Redis."""
    blocks = "\n".join(block["code"] for block in FENCE.finditer(read(document)) if block["kind"] == "python")
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "--output-format=json", "-"]
    found = subprocess.run(words, input=blocks, capture_output=True, text=True, check=False)
    undefined = {re.findall("`(.+)`", problem["message"])[0] for problem in json.loads(found.stdout)}
    text = FENCE.sub("", read(document))
    assert {name for name in undefined if not re.search(rf"`{name}\b[^`\n]*`", text)} == set()


def test_the_documented_defaults_of_the_timeouts_are_those_of_the_code() -> None:
    rows = read("docs/lookup/glossary.md")
    assert "seen for this long (30 minutes)" in rows
    assert "even if it is active (1 day)" in rows
    assert (Settings().idle_timeout, Settings().absolute_timeout) == (30 * 60, 86_400)


# -- where they point there is something ------------------------------------------------------------------------------


@cache
def headings(document: str) -> frozenset[str]:
    """The anchors that a heading gets: lower case, no punctuation, dashes for spaces."""
    lines = re.findall(r"^#+ (.+)$", FENCE.sub("", read(document)), re.M)
    return frozenset(re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_existing_files_and_headings(document: str) -> None:
    text = "\n".join(re.sub(r"`[^`\n]*`", "", line) for line in FENCE.sub("", read(document)).splitlines())
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / document).parent.joinpath(path) if path else ROOT / document
        leads = target.exists() and (not anchor or anchor in headings(target.resolve().relative_to(ROOT).as_posix()))
        broken += [] if leads else [link]
    assert not broken


def test_anchors_follow_the_rules_of_the_usual_renderers() -> None:
    assert {"who-may-open-the-dashboard", "roles"} <= headings("docs/run/access.md")
    assert "pages-of-other-origins-cors" in headings("docs/use/frameworks.md")
    assert "r1--visitor-counter" in headings("docs/use/recipes.md")


# -- what they name exists --------------------------------------------------------------------------------------------


def commands() -> dict[str, argparse.ArgumentParser]:
    [action] = [action for action in cli.build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(action.choices)


def options(parser: argparse.ArgumentParser) -> set[str]:
    """All options of a command and of its subcommands."""
    found = set()
    for action in parser._actions:
        found |= set(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found |= options(below)
    return found


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_commands_and_their_options_are_those_of_the_parser(document: str) -> None:
    known = commands()
    wrong = []
    for code in code_of(document):
        for match in COMMAND.finditer(code):
            words = match["words"].partition("#")[0].split()
            if words[0] == "service" or "=" in match["words"].split("--")[0]:
                continue
            if words[0] not in known:
                wrong.append(f"presence {words[0]}")
                continue
            given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            wrong += [f"presence {words[0]} {option}" for option in given - options(known[words[0]]) - {"--help"}]
            if len(words) > 1 and "--help" not in given:  # more than the command's name: it can be typed as it stands
                needed = [
                    action.option_strings[-1]
                    for action in known[words[0]]._actions
                    if action.required and action.option_strings
                ]
                wrong += [f"presence {' '.join(words)}: without {option}" for option in needed if option not in given]
    assert not wrong


@cache
def files() -> tuple[str, ...]:
    packages = ("presence_core", "presence_dashboard", "tests", "benchmarks", "docs", ".ci", ".streamlit")
    below = [path.relative_to(ROOT).as_posix() for package in packages for path in (ROOT / package).rglob("*")]
    return (*below, *(path.name for path in ROOT.iterdir()))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_and_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    elsewhere = source() + (ROOT / ".gitignore").read_text("utf-8")  # files that are served or that a user makes
    wrong = []
    for code in code_of(document):
        wrong += [
            f"make {target}" for target in re.findall(r"(?:^|\s)make (\w+)\b(?!=)", code) if target not in targets
        ]
        if re.fullmatch(r"[\w.][\w./-]*\.(py|lua|md|toml|js)", code):
            there = any(name == code or name.endswith("/" + code) for name in files())
            wrong += [] if there or code in elsewhere else [code]
    assert not wrong


def test_each_document_that_code_names_exists() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    sources = [name for name in listed or files() if re.search(r"\.(py|lua|toml|ya?ml)$|(^|/)Makefile$", name)]
    assert "presence_core/lua/include/moves/note_move.lua" in sources
    wrong = [
        f"{source}: {document}"
        for source in sources
        for document in re.findall(r"\bdocs/[\w./-]+\.md\b", (ROOT / source).read_text("utf-8"))
        if not (ROOT / document).exists() and not document.startswith("docs/reference/")  # `make docs` writes them
    ]
    assert not wrong


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "docs/release.md"])
def test_no_document_installs_from_an_index_that_does_not_have_the_package(document: str) -> None:
    assert not re.findall(r"(?:pip|pipx|uv) install [^`\n]*\bpresence[-_]core(?!-[\d.]+-py3)", read(document))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_of_the_library_exist(document: str) -> None:
    public = {name: getattr(presence_core, name) for name in presence_core.__all__} | {"Rules": Rules}
    node = re.findall(r"^  (?:async )?(\w+)\(", read("docs/examples/presence.mjs"), re.M)  # its methods of Presence
    wrong = []
    for code in code_of(document):
        named = [*re.findall(r"(?<![\w.])([A-Z]\w+)\.([a-z]\w*)\b", code)]
        named += [("Presence", name) for name in re.findall(r"(?<![\w.])presence\.([a-z_]+)\(", code)]
        wrong += [f"{owner}.{name}" for owner, name in named
                  if owner in public and not hasattr(public[owner], name) and name not in node]  # fmt: skip
        if re.fullmatch(r"[A-Z]\w*[a-z]\w*[A-Z]\w*(\(.*\))?", code):
            name = code.partition("(")[0]
            wrong += [] if name in capitalized_words() else [name]
    assert not wrong


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documented_environment_variables_are_read(document: str) -> None:
    known = {f"PRESENCE_{field.name.upper()}" for field in fields(Settings)}
    named = set(re.findall(r"\bPRESENCE_[A-Z_0-9]+\b", read(document)))
    assert named - known <= capitalized_words()


TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_each_promise_names_a_test() -> None:
    faults = read("docs/promises_faults.md").partition("## What is not promised")[0]
    promised = f"{read('docs/promises.md')}\n{faults}"
    promises = re.split(r"^- ", promised, flags=re.M)[1:]
    assert len(promises) > 100
    assert [promise for promise in promises if not TEST.search(promise)] == []


def test_asvs_has_a_line_for_each_requirement_with_a_test_or_a_duty() -> None:
    rows = re.findall(r"^\| (7\.\d\.\d) \| ([123]) \| (.+?) \| (.+?) \| (.+?) \|$", read("docs/asvs.md"), re.M)
    sections = {1: 3, 2: 4, 3: 2, 4: 5, 5: 3, 6: 2}
    assert [row[0] for row in rows] == [f"7.{s}.{n}" for s, last in sections.items() for n in range(1, last + 1)]
    without = {number for number, _, _, ours, _ in rows if not TEST.search(ours)}
    assert without == {"7.1.3"}
    assert all(ours.startswith("Nothing") for number, _, _, ours, _ in rows if number in without)


@pytest.mark.parametrize("document", ["docs/promises.md", "docs/promises_faults.md", "docs/asvs.md"])
def test_the_named_tests_exist(document: str) -> None:
    wrong = []
    for file, name in TEST.findall(read(document)):
        code = (ROOT / file).read_text("utf-8") if (ROOT / file).exists() else ""
        if not re.search(rf"^(?:async )?def {name}\(", code, re.M):
            wrong.append(f"{file}::{name}")
    assert not wrong
