"""The house itself: which way dependencies point, and that the two twins are twins."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import presence_core
from presence_core import AsyncPresence, Presence
from presence_core.scripts import EVERY

ROOT = Path(presence_core.__file__).parent

# Design, §2: a room imports only from rooms before it. What is not named here comes last.
ORDER = [
    {"errors", "models", "agents", "forked"},
    {"keyspace", "settings"},
    {"filters"},
    {"scripts"},
    {"operations", "transport", "embedded", "_keeper"},
    {"client"},
]
LAST = len(ORDER)

NO_CLOCK = {"time", "random", "secrets", "datetime", "asyncio", "threading", "socket", "os", "uuid", "select", "ssl"}


def _room(module: str) -> str:
    """presence_core.operations.login → operations"""
    return module.split(".")[1] if "." in module else ""


def _rank(room: str) -> int:
    return next((place for place, rooms in enumerate(ORDER) if room in rooms), LAST)


def _modules() -> list[tuple[str, Path]]:
    return sorted(
        (".".join(["presence_core", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__"), path)
        for path in ROOT.rglob("*.py")
    )


def _only_for_types(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(node.test)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Modules imported anywhere in it, except for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _only_for_types(node):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            assert node.module is not None
            if node.module == "presence_core":
                yield from (f"presence_core.{alias.name}" for alias in node.names)
            else:
                yield node.module
        yield from _imports(node)


MODULES = _modules()


@pytest.mark.parametrize(("name", "path"), MODULES, ids=[name for name, _ in MODULES])
def test_dependencies_point_one_way(name: str, path: Path) -> None:
    room = _room(name)
    imported = set(_imports(ast.parse(path.read_text("utf-8"))))
    foreign = {module.split(".")[0] for module in imported} - {"presence_core"}
    assert not foreign & {"streamlit", "pandas", "presence_dashboard", "demo", "tests"}
    if room not in ("transport", "activity"):
        assert "redis" not in foreign, "only the transport imports redis"
    if room == "operations":
        assert not foreign & NO_CLOCK, "operations lend what they need from the client"
    if name == "presence_core":
        return
    for other in {_room(module) for module in imported if module.startswith("presence_core.")} - {room}:
        peers = _rank(room) == _rank(other) == LAST or {room, other} == {"embedded", "_keeper"}
        assert peers or _rank(other) < _rank(room), f"{name} imports {other}"


@pytest.mark.parametrize("path", [path for _, path in MODULES], ids=[name for name, _ in MODULES])
def test_a_file_is_a_room_with_a_purpose_and_no_hall(path: Path) -> None:
    text = path.read_text("utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) < 500


def _public(cls: type) -> dict[str, Any]:
    return {
        name: getattr(cls, name)
        for name in dir(cls)
        if callable(getattr(cls, name)) and (not name.startswith("_") or name == "__init__")
    }


def _shape(function: Any) -> list[tuple[str, Any, Any]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


def test_every_method_exists_on_both_twins_with_the_same_signature() -> None:
    sync, asynchronous = _public(Presence), _public(AsyncPresence)
    assert sync.keys() == asynchronous.keys()
    assert len(sync) > 20
    for name, method in sync.items():
        assert _shape(method) == _shape(asynchronous[name]), name
        if name in ("__init__", "from_url", "from_env", "embedded"):
            continue
        other = asynchronous[name]
        assert inspect.iscoroutinefunction(other) or inspect.isasyncgenfunction(other), name
        ours, theirs = inspect.signature(method).return_annotation, inspect.signature(other).return_annotation
        assert theirs in (ours, f"Async{ours}"), name


def test_the_twins_are_context_managers_of_their_kind() -> None:
    for name in ("__enter__", "__exit__"):
        assert hasattr(Presence, name)
        assert hasattr(AsyncPresence, f"__a{name.strip('_')}__")


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in presence_core.__all__:
        public = getattr(presence_core, name)
        assert inspect.getdoc(public), name
        if not inspect.isclass(public):
            continue
        for method_name, method in vars(public).items():
            if method_name.startswith("_") or not (inspect.isroutine(method) or isinstance(method, property)):
                continue
            assert inspect.getdoc(getattr(public, method_name)), f"{name}.{method_name}"


def test_there_is_no_magic_that_makes_methods_up() -> None:
    for cls in (Presence, AsyncPresence):
        assert "__getattr__" not in vars(cls)
        assert "__getattribute__" not in vars(cls)


@pytest.mark.parametrize("script", EVERY, ids=lambda script: script.name)
def test_every_script_says_what_it_does_with_which_keys(script: Any) -> None:
    lines = (ROOT / "lua" / f"{script.name}.lua").read_text("utf-8").splitlines()
    assert lines[0].startswith("#!lua")
    head = "\n".join(line for line in lines if line.startswith("--"))
    assert "KEYS:" in head
    assert "ARGV:" in head
    assert "returns:" in head
    body = "\n".join(line.partition("--")[0] for line in script.text.splitlines())
    assert not re.search(r"call\('(KEYS|SCAN|RANDOMKEY|FLUSH\w+|EVAL\w*)'", body, re.IGNORECASE)
    writes = script.command == "EVALSHA"
    assert writes != ("no-writes" in lines[0])
    assert "while true" not in body.lower()


def test_no_script_is_forgotten() -> None:
    assert {script.name for script in EVERY} == {path.stem for path in (ROOT / "lua").glob("*.lua")}
