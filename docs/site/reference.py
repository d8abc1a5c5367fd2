"""The pages of the reference, made from the code: docstrings, fields, the parser of the command, the OpenAPI document.

Each function returns one page as Markdown. In a page of Python names, ``::: name`` is where mkdocstrings puts the
docstrings of that name and of its members.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from presence_core import AsyncPresence, Presence, SessionFilter, Settings, cli
from presence_core.schema.conditions import CONDITIONS
from presence_core.schema.refusals import RULES
from presence_core.trackers import AsyncLastSeenTracker, AsyncMinuteSetTracker
from presence_core.web.service.api_docs import rows_of, scopes_of
from presence_core.web.service.api_keys import StoredKeys
from presence_core.web.service.app import create_app
from presence_core.web.service.site_pages.options import Pages
from presence_dashboard.gate_settings import Config

ROOT: Final = Path(__file__).resolve().parents[2]

CORE: Final = "presence_core"

PYTHON_PAGES: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "session_filter": (
        "SessionFilter",
        "The conditions of a list, a count or a bulk kick, and the order of a list.",
        ("SessionFilter", "ListOrder"),
    ),
    "records": (
        "Records",
        "What the methods return: frozen dataclasses. Times are aware UTC datetimes.",
        (
            "Session", "Login", "Validation", "ValidationPassed", "ValidationFailed", "FailureCode", "Ended",
            "EndReason", "EndCause", "SignIn", "SignInResult", "PublicBlock", "Page", "Person", "Place", "Counts",
            "Sample",
            "Event", "EventKind", "DistantLogin", "SessionMoved", "Move", "Origin", "KickResult", "KickPreview",
            "MatchedPerson", "Job", "JobState",
            "JobErrorCode", "JobKind", "TimeoutsPreview", "TimeoutsChange",
            "Block", "BlockRule", "BlockRuleKind", "BlockRulePreview", "AuditEntry", "AuditFact",
            "StaffMember", "StaffRole", "SavedItem", "SavedKind", "ApprovalRequest", "ApprovalState", "ApprovedAct",
            "ApprovalAnswer", "Viewer", "Remark", "EraseReport", "SweepReport",
            "ReshardReport", "Plan", "Health", "NodeHealth", "Finding", "FindingLevel", "WorkerStatus", "Alert",
            "MirrorStatus", "Notice", "NoticeState", "NoticeAnswer", "NoticeReport",
            "PersonAlert", "FailureAlert", "FailedLogin", "FailedNetwork", "TopCount", "TopPeople", "TopPerson",
        ),
    ),
    "errors": (
        "Errors",
        "Everything that the library raises. A session that does not exist is no error, but None, False or an `Ended`.",
        ("PresenceError", "InvalidArgument", "InvalidCode", "LoginRefused", "RefusalCode", "Unavailable",
         "OutcomeUnknown", "CorruptData"),
    ),
    "helpers": (
        "Worker, heartbeats, trackers",
        "The maintenance loop, the heartbeats of a busy process, and visitors without sessions.",
        ("Worker", "HeartbeatBuffer", "LastSeenTracker", "AsyncLastSeenTracker", "MinuteSetTracker",
         "AsyncMinuteSetTracker"),
    ),
}  # fmt: skip
"""File name → title, first sentence, names of ``presence_core``."""

MODULES: Final = (
    "web.asgi", "web.wsgi", "web.fastapi", "web.rules", "web.cookies", "web.django.admin", "web.django.apps",
    "web.django.channels", "web.django.middleware", "web.django.your_devices", "web.jwt", "web.webhooks",
    "web.backchannel_logout", "web.notices.sender", "web.notices.smtp", "web.notices.link", "web.notices.mail",
    "web.your_devices.asgi", "web.your_devices.wsgi", "web.your_devices.options", "web.your_devices.device_list",
    "otel", "prometheus", "testing",
)  # fmt: skip
"""The other modules of ``presence_core`` that sites import."""


def pages() -> dict[str, str]:
    """File name → text, of all pages."""
    made: dict[str, Callable[[], str]] = {
        "presence": lambda: client_page(Presence),
        "async_presence": lambda: client_page(AsyncPresence),
        "errors": errors_page,
        "settings": settings_page,
        "modules": modules_page,
        "commands": commands_page,
        "http_api": http_api_page,
    }
    texts = {name: python_page(*page) for name, page in PYTHON_PAGES.items()}
    return texts | {name: make() for name, make in made.items()}


# -- Python -----------------------------------------------------------------------------------------------------------


def python_page(title: str, sentence: str, names: tuple[str, ...]) -> str:
    return f"# {title}\n\n{sentence}\n" + "".join(described(CORE, name) for name in names)


def errors_page() -> str:
    """The codes of InvalidArgument are a table at its end."""
    text = python_page(*PYTHON_PAGES["errors"]) + "\n## Codes of refused values\n\n| `code` | the value |\n|---|---|\n"
    return text + "".join(_row(f"`{code}`", rule) for code, rule in RULES.items())


def described(module: str, name: str, level: int = 2) -> str:
    """One public name: its docstring, then a table of its fields if it is a dataclass, then its methods."""
    needs_django = ".django." in module  # its modules can be imported in a configured site only
    value = None if needs_django else getattr(importlib.import_module(module), name)
    if not inspect.isclass(value) or not dataclasses.is_dataclass(value):
        return directive(f"{module}.{name}", level, show_if_no_docstring=name.startswith("Async"))
    text = directive(f"{module}.{name}", level, members=False, inherited_members=False)
    text += "\n| field | type, default | meaning |\n|---|---|---|\n"
    for field, kind, meaning in field_rows(value):
        text += _row(f"`{field}`", f"`{kind}`", meaning)
    fields = {field.name for field in dataclasses.fields(value)}
    methods = [member for member in _members(value) if member not in fields]
    return text + "".join(directive(f"{module}.{name}.{member}", level + 1) for member in methods)


def directive(name: str, level: int, **options: bool) -> str:
    lines = "".join(f"      {option}: {str(value).lower()}\n" for option, value in options.items())
    return f"\n::: {name}\n    options:\n      heading_level: {level}\n{lines}"


def _members(owner: type) -> dict[str, None]:
    """The public methods and properties of our classes, in the order of the source."""
    ours = [base for base in owner.__mro__ if base.__module__.startswith(CORE)]
    return {name: None for base in reversed(ours) for name in vars(base) if not name.startswith("_")}


def field_rows(owner: type) -> Iterator[tuple[str, str, str]]:
    """Name, type with default, and meaning of each field: the ``#:`` comment behind it, the string below it, or the
    words of the condition."""
    rows = {}
    for base in reversed(owner.__mro__):
        if base is owner or dataclasses.is_dataclass(base):
            lines = textwrap.dedent(inspect.getsource(base)).splitlines()
            [tree] = ast.parse("\n".join(lines)).body
            assert isinstance(tree, ast.ClassDef)
            for node, below in itertools.pairwise([*tree.body, ast.Pass()]):
                if isinstance(node, ast.AnnAssign) and node.end_lineno is not None:
                    meaning = lines[node.end_lineno - 1].partition("#: ")[2]
                    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                        meaning = meaning or str(below.value.value)
                    rows[ast.unparse(node.target)] = (ast.unparse(node).partition(": ")[2], meaning)
    if owner is SessionFilter:
        rows = {name: (kind, CONDITIONS[name].words) for name, (kind, _) in rows.items()}
    yield from ((name, *rows[name]) for name in (field.name for field in dataclasses.fields(owner)))


def client_page(client: type) -> str:
    """Presence or AsyncPresence: a section for each of its parts."""
    name = f"{CORE}.{client.__name__}"
    text = directive(name, 1, members=False, inherited_members=False)
    for title, members in client_methods(client).items():
        text += f"\n## {title}\n" + "".join(client_member(client, member) for member in members)
    return text


def client_member(client: type, name: str) -> str:
    """A method of a client. mkdocstrings reads the source, so for one made by ``awaited`` we write the signature, and
    for one of AsyncPresence the docstring that it takes over from Presence."""
    text = directive(f"{CORE}.{client.__name__}.{name}", 3)
    method = inspect.getattr_static(client, name)
    taken_over = f"\n{inspect.getdoc(method)}\n" if client is AsyncPresence else ""
    made_from = inspect.unwrap(method) if callable(method) else method
    if made_from is method or inspect.iscoroutinefunction(made_from):
        return text if _has_docstring(method) else text + taken_over
    source = textwrap.dedent(inspect.getsource(made_from))
    [tree] = ast.parse(source).body
    assert isinstance(tree, ast.FunctionDef)
    signature = "\n".join(source.splitlines()[: tree.body[0].lineno - 1])
    return f"{text}      show_attribute_values: false\n\n```text\nasync {signature} ...\n```\n{taken_over}"


def _has_docstring(method: Any) -> bool:
    """Whether its own source has one."""
    function = getattr(method, "fget", None) or getattr(method, "__func__", method)
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    return ast.get_docstring(tree) is not None


def client_methods(client: type) -> dict[str, list[str]]:
    """Title → public methods, from the classes that a client is made of."""
    sections: dict[str, list[str]] = {}
    for owner in client.__mro__[1:-1]:
        words = re.findall("[A-Z][a-z]+", owner.__name__.removeprefix("Async").removesuffix("Methods"))
        is_base = owner.__name__.endswith(("Client", "Constructors"))
        title = "Make and close" if is_base else " ".join(words).capitalize()
        sections.setdefault(title, []).extend(name for name in vars(owner) if not name.startswith("_"))
    return sections


def module_names() -> Iterator[tuple[str, list[str]]]:
    """Each of MODULES with its public names: ``__all__``, or its classes, functions and described constants."""
    for module in MODULES:
        path = ROOT / CORE / module.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        names: list[str] = []
        for node, below in itertools.pairwise([*ast.parse(path.read_text("utf-8")).body, ast.Pass()]):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.append(node.name)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names = list(ast.literal_eval(node.value))
                break
            elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
                names.append(ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0]))
        yield f"{CORE}.{module}", [name for name in names if not name.startswith("_")]


def modules_page() -> str:
    text = "# Frameworks, JWT, webhooks, tests\n\n[In your framework](../use/frameworks.md) shows how to use them.\n"
    for module, names in module_names():
        sections = (django_settings() if name == "PresenceConfig" else described(module, name, 3) for name in names)
        text += f"\n## `{module}`\n" + "".join(sections)
    return text


def django_settings() -> str:
    """The table of Django settings in the docstring of PresenceConfig, as Markdown."""
    module = f"{CORE}.web.django.apps"
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8")
    [owner] = [node for node in ast.parse(source).body if getattr(node, "name", "") == "PresenceConfig"]
    assert isinstance(owner, ast.ClassDef)
    first, _, table = (ast.get_docstring(owner) or "").partition("\n\n")
    rows = re.findall(r"^(PRESENCE_\w+) +(.+(?:\n {20,}.+)*)", table, re.MULTILINE)
    text = f"\n### PresenceConfig {{#{module}.PresenceConfig}}\n\n{first}\n\n| setting | meaning |\n|---|---|\n"
    return text + "".join(_row(f"`{name}`", meaning) for name, meaning in rows)


def settings_page() -> str:
    text = directive(f"{CORE}.Settings", 1, members=False, inherited_members=False) + (
        '\n`Presence.from_url(url, Settings(namespace="shop", idle_timeout=900))`, or one environment variable for\n'
        "each field, which `Presence.from_env`, the commands and the services read. Durations are whole seconds.\n"
        "Lists are words with commas between them in a variable; `none` is the empty list.\n\n"
        "| field, variable | default | meaning |\n|---|---|---|\n"
    )
    for field, (name, _, meaning) in zip(dataclasses.fields(Settings), field_rows(Settings), strict=True):
        shown = field.default if not isinstance(field.default, tuple) else ", ".join(field.default) or "none"
        text += _row(f"`{name}`<br>`PRESENCE_{name.upper()}`", f"`{shown}`", meaning)
    methods = ("timeouts", "policy", "from_env")
    text += "".join(directive(f"{CORE}.{name}", 2) for name in (*(f"Settings.{m}" for m in methods), "OnLimit"))
    text += "\n## Variables of the dashboard\n\n| variable | default | meaning |\n|---|---|---|\n"
    for field, (_, _, words) in zip(dataclasses.fields(Config), field_rows(Config), strict=True):
        variable, _, meaning = words.partition(": ")
        text += _row(f"`{variable}`", f"`{field.default}`" if field.default else "", meaning)
    return text


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |\n"


# -- the command ------------------------------------------------------------------------------------------------------


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser; empty if it has none."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: parser for action in actions for name, parser in action.choices.items()}


def commands_page() -> str:
    presence = cli.build_parser()
    text = f"# Commands\n\n[The command line](../lookup/cli.md) has examples and exit codes.\n\n{_help(presence)}"
    for name, parser in subcommands(presence).items():
        text += f"\n## `presence {name}`\n\n{_help(parser)}"
        for below, inner in subcommands(parser).items():
            text += f"\n### `presence {name} {below}`\n\n{_help(inner)}"
    return text


def _help(parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, max_help_position=28, width=88)
    return f"```text\n{parser.format_help().rstrip()}\n```\n"


# -- the HTTP service -------------------------------------------------------------------------------------------------


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the service with all its addresses. Nothing connects."""
    url = "redis://localhost"
    presence = AsyncPresence.from_url(url)
    site_pages = Pages(
        counter=AsyncLastSeenTracker.from_url(url, "visitors", 600),
        visits=AsyncMinuteSetTracker.from_url(url, "{visit}", 600),
        friends_key="friends:{uid}",
    )
    return create_app(presence, keys=StoredKeys(presence), serves=site_pages).openapi()


def http_api_page() -> str:
    schema = openapi()
    text = f"# HTTP API\n\n{schema['info']['description']}\n[The HTTP service](../lookup/http.md) has examples.\n"
    section = ""
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            if operation.get("tags", [""])[0] != section:
                section = operation["tags"][0]
                text += f"\n## {section.capitalize()}\n"
            text += f"\n### `{method.upper()} {path}`\n\n{operation.get('description', '')}\n"
            if scopes := scopes_of(operation):
                text += f"\nScope: {', '.join(f'`{scope}`' for scope in scopes)}.\n"
            if rows := list(rows_of(schema, operation)):
                text += "\n| name | where, type | meaning |\n|---|---|---|\n"
                text += "".join(_row(f"`{name}`", kind, meaning) for name, kind, meaning in rows)
    return text
