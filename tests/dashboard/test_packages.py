"""The structure of the dashboard: which package imports which, and how large files and folders are."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import presence_dashboard

ROOT = Path(presence_dashboard.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
ORDER = (
    "language", "texts", "browser_files", "format", "time_range", "ticket_links", "roles", "error_sentences",
    "data", "staff_names", "gate_settings", "gate", "access", "drafts", "actions", "components", "failure_facts",
    "views", "main", "__main__", "demo",
)  # fmt: skip
"""A package imports only packages before it."""


def imported(path: Path) -> Iterator[str]:
    """The dashboard's own modules that a file imports, below ``presence_dashboard``."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "presence_dashboard":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("presence_dashboard."):
            yield (node.module or "").removeprefix("presence_dashboard.")


def test_a_package_imports_only_packages_before_it() -> None:
    for path in MODULES:
        package, *inside = path.relative_to(ROOT).with_suffix("").parts
        for module in imported(path):
            other, *below = module.split(".")
            assert other == package or ORDER.index(other) < ORDER.index(package), (path, module)
            if package == "views" and other == "views":
                assert below[0] == inside[0], f"a view imports no other view: {path}"


def test_only_the_demo_uses_operations_scripts_or_the_transport_of_the_library() -> None:
    inner = tuple(f"presence_core.{package}" for package in ("operations", "scripts", "transport"))
    users = {
        path.relative_to(ROOT).parts[0]
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(inner)
    }
    assert users == {"demo"}


def test_a_file_is_short_and_says_what_it_holds() -> None:
    texts = {path: path.read_text("utf-8") for path in MODULES}
    assert [path for path, text in texts.items() if not ast.get_docstring(ast.parse(text))] == []
    assert [path for path, text in texts.items() if len(text.splitlines()) >= 500] == []


def test_no_folder_has_many_modules() -> None:
    """``texts`` has one module for each page and dialog, which needs no order of its own."""
    modules = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert [folder for folder, count in modules.items() if count > 14 and folder.name != "texts"] == []


def test_each_text_is_in_one_module() -> None:
    names = Counter(name for path in (ROOT / "texts").glob("*.py") for name in defined(path))
    assert [name for name, count in names.items() if count > 1] == []


def defined(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target)
