"""The wheel as users get it: complete, and each program of it runs outside of the checkout."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from email.parser import Parser
from functools import partial
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from presence_core import Presence, Settings
from presence_dashboard.gate.headers import security_headers
from tests.browser.conftest import chromium
from tests.conftest import Servers
from tests.dashboard.wire import Wire, answers
from tests.support.fair_clock import PATIENT
from tests.support.programs.wheel import ROOT, Environment, build
from tests.support.servers import free_port, wait_for
from tests.support.soak import SOAK


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of a release, by their ending."""
    return {file.suffix: file for file in build(tmp_path_factory.mktemp("dist"), "wheel", "sdist")}


@pytest.fixture(scope="module")
def whole(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With the extra ``all``."""
    return Environment(tmp_path_factory.mktemp("whole"), built[".whl"], "all")


@pytest.fixture(scope="module")
def plain(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Without any extra."""
    return Environment(tmp_path_factory.mktemp("plain"), built[".whl"])


@pytest.fixture
def presence(servers: Servers) -> Iterator[Presence]:
    settings = Settings(namespace=f"wheel{os.getpid()}", timeout=PATIENT)
    with Presence.from_url(servers.url("valkey"), settings) as made:
        made.login("ada", name="Ada Lovelace")
        yield made


@pytest.fixture
def named(presence: Presence, servers: Servers) -> dict[str, str]:
    """Variables that name the server and the namespace."""
    return {
        "PRESENCE_REDIS_URL": servers.url("valkey"),
        "PRESENCE_NAMESPACE": presence.settings.namespace,
        "PRESENCE_TIMEOUT": str(PATIENT),
    }


@contextmanager
def running(installed: Environment, directory: Path, *words: str, **environ: str) -> Iterator[tuple[Path, int]]:
    """A program of the wheel, in another directory: its output, and its pid. At the end it must obey SIGINT."""
    output = directory / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            installed.command(*words), cwd=directory, env=installed.environ(**environ), stdin=subprocess.DEVNULL,
            stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip
    try:
        yield output, process.pid
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert "Traceback" not in output.read_text()


def ask(installed: Environment, directory: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environ = installed.environ(**environ)
    return subprocess.run(
        installed.command(*words), cwd=directory, env=environ, capture_output=True, text=True, timeout=120
    )


# -- what is in it ----------------------------------------------------------------------------------------------------


def checksums(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {item.filename: item.CRC for item in archive.infolist()}


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_has_all_files_of_both_packages_and_the_app(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".whl"]) as archive:
        names = set(archive.namelist())
        for name in ("dashboard.py", ".streamlit/config.toml"):
            assert archive.read(f"presence_dashboard/{name}") == (ROOT / name).read_bytes()
    files = [path for name in ("presence_core", "presence_dashboard") for path in (ROOT / name).rglob("*")]
    ours = {str(path.relative_to(ROOT)) for path in files if path.is_file() and "__pycache__" not in path.parts}
    assert ours <= names
    assert {"presence_core/py.typed", "presence_dashboard/py.typed"} <= names
    assert {"presence_dashboard/handbook/block.md", "presence_dashboard/handbook/block.png"} <= names
    assert "presence_core/web/your_devices/locale/de/LC_MESSAGES/your_devices.mo" in names
    assert "presence_dashboard/locale/zh_Hans/LC_MESSAGES/dashboard.mo" in names


def test_the_sdist_builds_the_same_wheel(built: dict[str, Path], tmp_path: Path) -> None:
    with tarfile.open(built[".gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    assert (source / "tests" / "conftest.py").is_file()
    (tmp_path / "dist").mkdir()
    [again] = build(tmp_path / "dist", "wheel", source=source)
    assert checksums(again) == checksums(built[".whl"])


def test_the_metadata_name_addresses_extras_and_absolute_links(built: dict[str, Path]) -> None:
    metadata = metadata_of(built[".whl"])
    urls = dict(text.split(", ") for text in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Changelog", "Source", "Issues"} == set(urls)
    base = urls["Homepage"]
    assert all(url.startswith(base) for url in urls.values())
    extras = {"embedded", "dashboard", "web", "django", "devices", "geo", "oidc", "otel"}
    assert set(metadata.get_all("Provides-Extra", [])) == {*extras, "all"}
    readme = str(metadata.get_payload())
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    assert f"]({base}/raw/main/docs/images/dashboard-light.png)" in readme
    ours = [link.removeprefix(f"{base}/blob/main/").partition("#")[0] for link in links if f"{base}/blob" in link]
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_all_means_all_extras(built: dict[str, Path]) -> None:
    required = metadata_of(built[".whl"]).get_all("Requires-Dist", [])

    def of(extra: str) -> set[str]:
        return {text.partition(";")[0].strip() for text in required if f"extra == '{extra}'" in text}

    extras = ("embedded", "dashboard", "web", "django", "devices", "geo", "oidc", "otel")
    assert of("all") == set().union(*map(of, extras))


# -- what runs --------------------------------------------------------------------------------------------------------


def test_the_command_runs_without_any_extra_and_says_what_to_install(
    plain: Environment, named: dict[str, str], tmp_path: Path
) -> None:
    counts = ask(plain, tmp_path, "counts", "--json", **named)
    assert (counts.returncode, json.loads(counts.stdout)["sessions"], counts.stderr) == (0, 1, "")
    if SOAK:  # tests/cli/test_completion.py has these without the wheel
        assert ask(plain, tmp_path, "--version").stdout.startswith("presence ")
        assert "presence" in ask(plain, tmp_path, "completion", "bash").stdout
    for word, extra in (("dashboard", "dashboard"), ("demo", "dashboard and embedded"), ("serve", "web")):
        refused = ask(plain, tmp_path, word, **named)
        assert refused.returncode == 2
        assert f"install the extra{'s' if ' ' in extra else ''} {extra}" in refused.stderr
        assert refused.stderr.count("\n") <= 2


def test_the_module_is_the_command(whole: Environment, named: dict[str, str], tmp_path: Path) -> None:
    command = [str(whole.bin / "python"), "-m", "presence_core", "list"]
    listed = subprocess.run(command, cwd=tmp_path, env=whole.environ(**named), capture_output=True, text=True)
    assert "Ada Lovelace" in listed.stdout


def test_service_and_worker_run(whole: Environment, named: dict[str, str], tmp_path: Path, presence: Presence) -> None:
    with running(whole, tmp_path, "serve", "--port", "0", **named) as (output, _):
        wait_for("the address", lambda: "Serving http" in output.read_text())
        [url] = re.findall(r"Serving (http\S+)", output.read_text())
        assert httpx.get(f"{url}/v1/sessions").json()["items"][0]["uid"] == "ada"
    with running(whole, tmp_path, "worker", **named):
        wait_for("a sweep", lambda: (status := presence.worker_status()) and status.last_run)


@pytest.fixture
def served(whole: Environment, named: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The dashboard, in a directory that has the configuration of another app."""
    (tmp_path / ".streamlit").mkdir()
    others = '[server]\naddress = "0.0.0.0"\n[theme]\nbaseFontSize = 30\n'
    (tmp_path / ".streamlit" / "config.toml").write_text(others)
    port = free_port()
    with running(whole, tmp_path, "dashboard", "--port", str(port), **named):
        wait_for("the dashboard", partial(answers, f"http://127.0.0.1:{port}"))
        yield f"http://127.0.0.1:{port}"


def test_the_dashboard_serves_the_pages_behind_the_gate_with_headers_and_theme(served: str) -> None:
    answer = httpx.get(served, headers={"Accept": "text/html"})
    assert answer.status_code == 200
    for name, value in security_headers().items():
        assert answer.headers[name] == value
    assert "/page/page.js" in answer.text
    refused = httpx.get(served, headers={"Host": "rebound.example"})
    assert refused.status_code == 403, "the gate"
    with Wire.open(served) as wire:
        wire.go()
        assert b"Ada Lovelace" in b"".join(wire.heard)
        [theme] = [frame.new_session.custom_theme for frame in wire.frames if frame.WhichOneof("type") == "new_session"]
    configured = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text("utf-8"))
    assert theme.light.primary_color == configured["theme"]["light"]["primaryColor"]
    assert theme.base_font_size == configured["theme"]["baseFontSize"]
    [script] = re.findall(r"/page/page\.js[^\"]*", answer.text)
    assert "connection-lost" in httpx.get(served + script).text
    if SOAK:
        with chromium() as browser:
            page = browser.new_page()
            page.goto(served)
            expect(page.get_by_text("Ada Lovelace").first).to_be_visible()


def test_the_demo_runs_on_its_own_server_and_ends_with_ctrl_c(
    built: dict[str, Path], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """In a soak with no other extra than the two that it needs."""
    if SOAK:
        installed = Environment(tmp_path_factory.mktemp("demo"), built[".whl"], "dashboard", "embedded")
    else:
        installed = request.getfixturevalue("whole")
    port, site_port = free_port(), free_port()
    environ = {
        "PRESENCE_DASHBOARD_PORT": str(port),
        "PRESENCE_DEMO_SITE_PORT": str(site_port),
        "PRESENCE_DEMO_VISITORS": "20",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    with running(installed, tmp_path, "demo", **environ) as (output, _):
        wait_for("the addresses", lambda: f"http://127.0.0.1:{site_port}" in output.read_text())
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        assert httpx.get(f"http://127.0.0.1:{site_port}/sign-in").status_code == 200
        data = tmp_path / "state" / "presence-demo"
        assert (data / "server.pid").is_file()
        assert [log for log in data.glob("*.log") if "Traceback" in log.read_text()] == []
    assert output.read_text().endswith("All ended.\n")
    assert {path.name for path in tmp_path.iterdir()} == {"output", "state"}, "nothing is written elsewhere"
