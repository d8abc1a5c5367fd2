"""The reference is complete: every public name, field, variable, command and address has its place on the site.

``make docs`` builds the site, which takes half a minute; these tests look at the pages before they are built.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import presence_core
from docs.site import __main__ as site
from docs.site import reference
from presence_core import AsyncPresence, Presence, SessionFilter, Settings, cli
from presence_core.files.secret_files import SECRETS
from presence_core.web.rules import Rules, Verdict, Visitor
from presence_core.web.your_devices.device_list import Device, DeviceList, DevicesPage, PastDevice
from presence_core.web.your_devices.options import DeviceOptions
from presence_dashboard.gate_settings import Config
from tests.golden import public_names

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.xdist_group("reference")  # they share the pages, which take a second to make


@cache
def pages() -> dict[str, str]:
    return reference.pages()


def described(text: str) -> list[str]:
    return re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)


def test_every_public_name_is_described_once() -> None:
    names = Counter(name for text in pages().values() for name in described(text))
    assert {f"presence_core.{name}" for name in presence_core.__all__} - names.keys() == set()
    assert [name for name, number in names.items() if number > 1] == []


@pytest.mark.parametrize(("client", "page"), [(Presence, "presence"), (AsyncPresence, "async_presence")])
def test_every_method_of_a_client_is_on_its_page(client: type, page: str) -> None:
    methods = {name for name in dir(client) if not name.startswith("_") and callable(getattr(client, name))}
    assert len(methods) > 60
    assert {f"presence_core.{client.__name__}.{name}" for name in methods} - set(described(pages()[page])) == set()


def test_every_module_for_sites_is_on_the_page_of_modules() -> None:
    found = {path.stem for path in (ROOT / "presence_core/web").iterdir() if not path.name.startswith("_")}
    ours = {"middleware", "proxies", "service"}  # shared by the others, or what `presence serve` runs
    web = {module.split(".")[1] for module in reference.MODULES if module.startswith("web.")}
    assert web == found - ours
    names = set(described(pages()["modules"]))
    for name in ("rules.Rules", "wsgi.PresenceMiddleware", "fastapi.CurrentSession", "jwt.RevocationCache",
                 "django.apps.get_presence", "webhooks.verify"):  # fmt: skip
        assert f"presence_core.web.{name}" in names
    assert "\n| `PRESENCE_KICK_OTHERS` | True (default)" in pages()["modules"]


@pytest.mark.parametrize("name", [name for names in reference.client_methods(AsyncPresence).values() for name in names])
def test_a_method_of_the_async_client_has_its_text(name: str) -> None:
    text = reference.client_member(AsyncPresence, name)
    described = inspect.getdoc(inspect.getattr_static(AsyncPresence, name)) or ""
    assert described
    # mkdocstrings finds these in the source
    written = name in {"watch", "embedded", "from_url", "from_env", "close", "may_fail_over"}
    assert written or described in text


DESCRIBED = [
    Settings,
    Config,
    SessionFilter,
    Rules,
    Visitor,
    Verdict,
    DeviceOptions,
    DevicesPage,
    DeviceList,
    Device,
    PastDevice,
]


@pytest.mark.parametrize("owner", DESCRIBED, ids=lambda owner: owner.__name__)
def test_every_field_is_described_in_the_code(owner: Any) -> None:
    rows = {name: (kind, meaning) for name, kind, meaning in reference.field_rows(owner)}
    assert list(rows) == [field.name for field in dataclasses.fields(owner)]
    assert [name for name, (kind, meaning) in rows.items() if not kind or not meaning] == []


@pytest.mark.parametrize("page", ["settings", "session_filter", "records", "modules"])
def test_fields_are_in_the_table_of_their_class(page: str) -> None:
    owners: dict[str, list[Any]] = {
        "settings": [Settings],
        "session_filter": [SessionFilter],
        "modules": [Rules, Visitor, Verdict, DeviceOptions, DevicesPage, DeviceList, Device, PastDevice],
    }
    names = reference.PYTHON_PAGES[page][2] if page in reference.PYTHON_PAGES else ()
    public = [getattr(presence_core, name) for name in names]
    shown = [owner for owner in owners.get(page, public) if dataclasses.is_dataclass(owner)]
    assert shown
    for owner in shown:
        for field in dataclasses.fields(owner):
            assert f"\n| `{field.name}`" in pages()[page], f"{owner}.{field.name}"


# -- what is frozen ---------------------------------------------------------------------------------------------------


def test_the_page_of_frozen_names_is_what_the_code_has() -> None:
    """A name that is gone breaks sites: docs/lookup/compatibility.md. After a new one, ``python -m tests.golden``."""
    page = public_names.PAGE.read_text("utf-8")
    assert all(f"\n{module}: " in page for module in public_names.names())
    assert public_names.written() == page


# -- environment variables --------------------------------------------------------------------------------------------

NOT_IN_THE_ENVIRONMENT = {
    "TEST_REDIS_URL", "SETTINGS", "RULES", "DESCRIBE", "ON_ENDED", "KICK_OTHERS", "UPDATE_PERSON", "DEVICE_COOKIE",
    "YOUR_DEVICES",
}  # fmt: skip
"""Django settings without a variable."""


def test_every_variable_of_the_code_is_on_the_page_of_variables_and_no_other() -> None:
    folders = [ROOT / name for name in ("presence_core", "presence_dashboard")]
    sources = [path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py")]
    read = set(re.findall(r"\bPRESENCE_([A-Z_]*[A-Z])\b(?!_)", "\n".join(sources)))
    settings = {field.name.upper() for field in dataclasses.fields(Settings)}
    files = {"REDIS_SSL_CA_CERTS", "REDIS_SSL_CERTFILE", "REDIS_SSL_KEYFILE"}  # the code joins their names
    assert all(name.lower().removeprefix("redis_") in sources_of_tls() for name in files)
    shown = (ROOT / "docs/lookup/environment.md").read_text("utf-8")
    shown += pages()["settings"].partition("## Variables of the dashboard")[2]
    rows = re.findall(r"^\| (`PRESENCE_.+?) \|", shown, re.MULTILINE)
    named = re.findall(r"PRESENCE_([A-Z_]+)", " ".join(rows))
    assert len(named) == len(set(named)) > 25
    files |= {name.removeprefix("PRESENCE_") + "_FILE" for name in SECRETS}
    assert set(named) == (read - settings - NOT_IN_THE_ENVIRONMENT) | files
    assert {name for name in settings if f"`PRESENCE_{name}`" not in pages()["settings"]} == set()


def sources_of_tls() -> str:
    return (ROOT / "presence_core/transport/tls.py").read_text("utf-8")


# -- the command and the HTTP service ---------------------------------------------------------------------------------


def sections(page: str) -> dict[str, str]:
    parts = re.split(r"^##+ `(.+)`$", pages()[page], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_is_on_its_page_with_all_its_options() -> None:
    shown = sections("commands")

    def check(name: str, parser: argparse.ArgumentParser) -> None:
        options = {option for action in parser._actions for option in action.option_strings}
        assert {option for option in options if option not in shown[name]} == set()
        for below, inner in reference.subcommands(parser).items():
            check(f"{name} {below}", inner)

    commands = reference.subcommands(cli.build_parser())
    assert len(commands) > 30
    for name, parser in commands.items():
        check(f"presence {name}", parser)


def test_every_address_of_the_service_is_on_its_page_with_all_its_fields() -> None:
    shown, schema = sections("http_api"), reference.openapi()
    addresses = {f"{method.upper()} {path}" for path, methods in schema["paths"].items() for method in methods}
    assert set(shown) == addresses
    assert {"POST /v1/sessions", "GET /healthz", "POST /counter", "GET /online/friends"} <= addresses
    for field in schema["components"]["schemas"]["LoginBody"]["properties"]:
        assert f"\n| `{field}` | body" in shown["POST /v1/sessions"]
    assert "\n| `refs` | body, list of string" in shown["POST /v1/heartbeats"]
    assert "\n| `token` | body, string" in shown["POST /v1/validate"]
    assert "\n| `cursor` | query, string, optional" in shown["GET /v1/sessions"]
    assert "Scope: `kick`." in shown["POST /v1/kicks"]


# -- the navigation ---------------------------------------------------------------------------------------------------


def test_every_page_of_the_shelves_has_one_place_in_the_navigation() -> None:
    """A new page needs a line in docs/site/zensical.toml. Pages for maintainers are in docs itself."""
    shelves = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*/**/*.md")}
    generated = {f"{site.REFERENCE}/{name}.md" for name in pages()}
    places = site.nav_pages()
    assert len(places) == len(set(places))
    assert set(places) == shelves | generated | {"README.md", "CHANGELOG.md", "SECURITY.md"}


def test_a_page_of_the_site_links_to_the_repository_for_what_is_not_on_the_site() -> None:
    texts = site.page_texts()
    assert set(texts) == set(site.nav_pages())
    assert f"]({site.REPOSITORY}/blob/main/LICENSE)" in texts["README.md"]
    assert f"]({site.REPOSITORY}/blob/main/docs/promises.md)" in texts["README.md"]
    assert f"]({site.REPOSITORY}/blob/main/docs/promises_faults.md#what-is-not-promised)" in texts["docs/run/redis.md"]
    assert "](docs/use/quickstart.md)" in texts["README.md"]
    assert "](docs/images/dashboard-light.png)" in texts["README.md"]
    assert not [page for page, text in texts.items() if re.search(r"^```\w+ \w", text, re.MULTILINE)]


def test_the_site_names_no_font_of_another_host() -> None:
    assert "\nfont = false" in site.CONFIG.read_text("utf-8")


def test_the_site_is_built_by_a_program_that_is_named_from_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``make docs`` names it like this, and it runs in another directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(site, "BUILD", tmp_path / "build")
    monkeypatch.setattr("sys.argv", ["docs.site", "bin/zensical"])
    program = tmp_path / "bin" / "zensical"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho error: it ran\n")
    program.chmod(0o755)
    assert site.main() == 1
    assert capsys.readouterr().err == "Zensical (exit code 0): error: it ran\n\n"
