"""`presence dashboard`: started from a wheel outside of the checkout, and its errors when it cannot start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from presence_core import Presence, Settings, cli
from presence_dashboard import gate
from tests.conftest import Servers
from tests.dashboard.wire import Wire, answers
from tests.support.fair_clock import PATIENT
from tests.support.servers import free_port, missing, wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the content of the wheel, and nothing of the checkout."""
    if find_spec("hatchling") is None:
        missing("hatchling")
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = directory.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", "--quiet"]
    subprocess.run([*install, "--target", str(directory / "site"), str(wheel)], check=True, timeout=120)
    return directory / "site"


@pytest.fixture
def served(installed: Path, presence: Presence, servers: Servers, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    (tmp_path / ".streamlit").mkdir()
    others = '[server]\naddress = "0.0.0.0"\n[theme]\nbaseFontSize = 30\n'  # another app's; ours count
    (tmp_path / ".streamlit" / "config.toml").write_text(others)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PRESENCE_", "STREAMLIT_"))}
    environ |= {
        "PYTHONPATH": str(installed),
        "PRESENCE_REDIS_URL": servers.url("valkey"),
        "PRESENCE_NAMESPACE": presence.settings.namespace,
    }
    with (tmp_path / "log").open("wb") as output:
        command = [str(installed / "bin" / "presence"), "dashboard", "--port", str(port)]
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for("the dashboard", partial(answers, f"http://127.0.0.1:{port}"))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def presence(servers: Servers) -> Iterator[Presence]:
    settings = Settings(namespace=f"wheel{os.getpid()}", timeout=PATIENT)
    with Presence.from_url(servers.url("valkey"), settings) as made:
        made.login("ada", name="Ada Lovelace")
        yield made


def test_an_installed_wheel_serves_the_pages_behind_the_gate_with_headers_and_theme(served: str) -> None:
    answer = httpx.get(served, headers={"Accept": "text/html"})
    assert answer.status_code == 200
    for name, value in gate.security_headers().items():
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


def test_a_wheel_has_the_app_and_the_settings_of_the_checkout(installed: Path) -> None:
    for name in ("dashboard.py", ".streamlit/config.toml"):
        assert (installed / "presence_dashboard" / name).read_bytes() == (ROOT / name).read_bytes()


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """Standard error of a command that does not start."""
    assert cli.main(["dashboard", *words]) == 2
    caught = capfd.readouterr()
    assert caught.out == ""
    [line] = caught.err.splitlines()
    return line


@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_a_port_out_of_range_is_reported_in_one_sentence(capfd: pytest.CaptureFixture[str], port: str) -> None:
    assert refused(capfd, "--port", port) == "port must be a whole number from 0 to 65535."


@pytest.mark.parametrize("port", ["65536", "1e3", "-1", "eight"])
def test_a_port_out_of_range_in_the_environment_is_reported_in_one_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    monkeypatch.setenv("STREAMLIT_SERVER_PORT", port)
    assert refused(capfd) == "STREAMLIT_SERVER_PORT must be a whole number from 0 to 65535."


def test_a_port_that_is_taken_is_reported_in_one_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        sentence = f"Cannot listen on 127.0.0.1:{port}: Address already in use."
        assert refused(capfd, "--port", port) == sentence
        monkeypatch.setenv("STREAMLIT_SERVER_PORT", port)
        assert refused(capfd) == sentence


def test_an_address_that_this_machine_does_not_have_is_reported_in_one_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", "203.0.113.9")
    assert refused(capfd, "--port", "8599").startswith("Cannot listen on 203.0.113.9:8599: ")


@pytest.mark.parametrize("lacking", ["streamlit", "pandas"])
def test_a_missing_extra_is_reported_with_the_install_command(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setitem(sys.modules, lacking, None)  # Python marks a module that cannot be imported like this
    assert refused(capfd) == (
        "The dashboard is not installed: install the extra dashboard (in a checkout: pip install '.[dashboard]')"
    )
