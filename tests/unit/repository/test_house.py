"""The rules of the packages: which imports they may have, how long a file is, and that sync and async are the same."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_origin

import pytest

import presence_core
from presence_core import AsyncPresence, Presence
from presence_core.scripts import EVERY

ROOT = Path(presence_core.__file__).parent
CHECKOUT = Path(__file__).parents[3]
LUA = ROOT / "lua"

# A package or module imports only from those in earlier lines. Those that are not listed come last.
ORDER = [
    {"errors", "text", "fork_safety", "drive_generators"},
    {"validation", "logs"},
    {"schema"},
    {"keyspace"},
    {"settings"},
    {"filters"},
    {"models"},
    {"scripts"},
    {"operations", "transport", "embedded", "files"},
    {"end_watch"},
    {"client"},
]
LAST = len(ORDER)

# A domain of the operations imports only from those before it. Modules that stand alone are used by all of them.
DOMAINS = (
    "durability", "sessions", "search", "failures", "idp", "staff", "notices", "maintenance", "bulk_kick", "privacy",
    "reshard",
    "mirror",
)  # fmt: skip

NO_CLOCK = {"time", "random", "secrets", "datetime", "asyncio", "threading", "socket", "os", "uuid", "select", "ssl"}


def _package(module: str) -> str:
    """presence_core.operations.sessions.login → operations"""
    return module.split(".")[1] if "." in module else ""


def _rank(package: str) -> int:
    return next((place for place, packages in enumerate(ORDER) if package in packages), LAST)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


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


def test_dependencies_point_one_way() -> None:
    wrong = {name: imports for name, path in MODULES if (imports := sorted(_wrong_imports(name, path)))}
    assert wrong == {}


def _wrong_imports(name: str, path: Path) -> Iterator[str]:
    package = _package(name)
    imported = set(_imports(_tree(path)))
    foreign = {module.split(".")[0] for module in imported} - {"presence_core"}
    yield from foreign & {"streamlit", "pandas", "presence_dashboard", "tests"}
    if package != "transport":
        yield from foreign & {"redis"}  # only the transport imports redis
    if package == "operations":
        yield from foreign & NO_CLOCK  # operations lend what they need from the client
    if name == "presence_core":
        return
    for other in {_package(module) for module in imported if module.startswith("presence_core.")} - {package}:
        peers = _rank(package) == _rank(other) == LAST
        if not peers and _rank(other) >= _rank(package):
            yield f"presence_core.{other}"


def test_the_domains_of_the_operations_have_an_order() -> None:
    assert set(DOMAINS) == {path.parent.name for path in (ROOT / "operations").glob("*/__init__.py")}
    names = {name for name, _ in MODULES}
    wrong = [
        f"{name} imports {module}"
        for name, path in MODULES
        if (domain := _domain(name)) in DOMAINS
        for module in _every_import(_tree(path), names)
        if (other := _domain(module)) in DOMAINS and DOMAINS.index(other) > DOMAINS.index(domain)
    ]
    assert wrong == []


def _domain(module: str) -> str:
    """presence_core.operations.sessions.login → sessions"""
    return module.split(".")[2] if module.startswith("presence_core.operations.") else ""


def _every_import(tree: ast.AST, names: set[str]) -> set[str]:
    """The modules of ours that a module imports anywhere, also for type checkers only."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= submodules & names or {node.module}
    return found & names


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        new = graph[todo.pop()] - found
        found |= new
        todo += new
    return found


def test_no_import_cycle_not_even_for_types_only() -> None:
    names = {name for name, _ in MODULES}
    graph = {name: _every_import(_tree(path), names) - {name} for name, path in MODULES}
    reached = {name: _reachable(graph, name) for name in names}
    cycles = {frozenset(other for other in names if other in reached[name] and name in reached[other])
              for name in names if name in reached[name]}  # fmt: skip
    assert [set(cycle) for cycle in cycles] == []


def test_a_file_has_a_purpose_and_fewer_than_500_lines() -> None:
    assert [name for name, path in MODULES if not ast.get_docstring(_tree(path))] == []
    assert [name for name, path in MODULES if len(path.read_text("utf-8").splitlines()) >= 500] == []


@pytest.mark.parametrize("root", [ROOT, CHECKOUT / "tests", CHECKOUT / "benchmarks"], ids=lambda path: path.name)
def test_no_folder_has_many_modules(root: Path) -> None:
    most = 14 if root == ROOT else 16
    files = [path for path in root.rglob("*") if path.suffix in (".py", ".lua") and not path.name.startswith("__")]
    assert [folder for folder, count in Counter(path.parent for path in files).items() if count > most] == []


def test_only_the_client_uses_its_private_attributes() -> None:
    """Our other modules use ``presence.internal``."""
    others = [(name, path) for name, path in MODULES if _package(name) != "client"]
    private = re.compile(r"presence\._(ctx|run|transport)\b")
    assert [name for name, path in others if private.search(path.read_text("utf-8"))] == []


def _public(cls: type) -> dict[str, Any]:
    return {
        name: getattr(cls, name)
        for name in dir(cls)
        if callable(getattr(cls, name)) and (not name.startswith("_") or name == "__init__")
    }


def _shape(function: Any) -> list[tuple[str, Any, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


def test_every_method_is_sync_and_async_with_the_same_signature() -> None:
    sync, asynchronous = _public(Presence), _public(AsyncPresence)
    assert sync.keys() == asynchronous.keys()
    assert len(sync) > 20
    for name, method in sync.items():
        assert _shape(method) == _shape(asynchronous[name]), name
        if name in ("__init__", "from_url", "from_env", "embedded"):
            continue
        other = asynchronous[name]
        assert asyncio.iscoroutinefunction(other) or inspect.isasyncgenfunction(other), name
        ours, theirs = inspect.signature(method).return_annotation, inspect.signature(other).return_annotation
        assert theirs in (ours, f"Async{ours}"), name


def test_sync_and_async_clients_are_context_managers_of_their_kind() -> None:
    for name in ("__enter__", "__exit__"):
        assert hasattr(Presence, name)
        assert hasattr(AsyncPresence, f"__a{name.strip('_')}__")


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in presence_core.__all__:
        public = getattr(presence_core, name)
        assert inspect.getdoc(public) or get_origin(public) is Literal, name
        if not inspect.isclass(public):
            continue
        for method_name, method in vars(public).items():
            if method_name.startswith("_") or not (inspect.isroutine(method) or isinstance(method, property)):
                continue
            assert inspect.getdoc(getattr(public, method_name)), f"{name}.{method_name}"


def test_no_method_is_made_by_getattr() -> None:
    for cls in (Presence, AsyncPresence):
        assert "__getattr__" not in vars(cls)
        assert "__getattribute__" not in vars(cls)


def test_a_line_of_lua_has_at_most_120_characters() -> None:
    assert [
        f"{path.relative_to(LUA).as_posix()}:{number}"
        for path in sorted(LUA.rglob("*.lua"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > 120
    ] == []


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
    assert {script.name for script in EVERY} == {
        path.relative_to(LUA).with_suffix("").as_posix() for path in LUA.rglob("*.lua") if "include" not in path.parts
    }
