"""`presence dashboard`: its errors when it cannot start. tests/project/test_wheel.py starts it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from presence_core import cli

OIDC_LACKS = "secrets.toml must have a table [auth] with redirect_uri, cookie_secret, client_id, client_secret, server"

SOAK_ONLY = pytest.mark.soak


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


@pytest.mark.parametrize(
    ("words", "environ", "sentence"),
    [
        ((), {"PRESENCE_REDIS_URL": "http://sam:hunter2@redis.example"}, "url must begin with redis://"),
        ((), {"PRESENCE_REDIS_URL": "redis://sam:hunter2@redis.example:port"}, "url cannot be read: check host, port"),
        ((), {"PRESENCE_REDIS_URL": ""}, "PRESENCE_REDIS_URL must be set"),
        ((), {"PRESENCE_REDIS_URL": "", "PRESENCE_REDIS_URL_FILE": "/no/file"}, "PRESENCE_REDIS_URL_FILE must name"),
        ((), {"PRESENCE_NAMESPACE": "A B"}, "namespace must be 1 to 32 characters"),
        ((), {"PRESENCE_TIMEOUT": "soon"}, "PRESENCE_TIMEOUT must be a number."),
        (("--hunter2",), {}, "presence: unrecognized arguments: --hunter2"),
    ],
)
@pytest.mark.parametrize("program", ["dashboard --port 0", "serve --port 0", "worker", "kick ada --reason x"])
def test_no_program_starts_with_a_wrong_setting_or_option_and_each_says_why_in_one_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    program: str, words: tuple[str, ...], environ: dict[str, str], sentence: str,
) -> None:  # fmt: skip
    monkeypatch.delenv("REDIS_URL", raising=False)
    for name, value in {"PRESENCE_REDIS_URL": "redis://127.0.0.1:1", **environ}.items():
        monkeypatch.setenv(name, value)
    assert cli.main([*program.split(), *words]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(sentence)
    assert "hunter2@" not in err


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (
            {"PRESENCE_DASHBOARD_ACCESS": "password", "PRESENCE_STAFF_FILE": "/"},
            "PRESENCE_STAFF_FILE must name a file that can be read and written (Is a directory).",
        ),
        ({"PRESENCE_DASHBOARD_ACCESS": "oidc", "STREAMLIT_SECRETS_FILES": "/no/file"}, OIDC_LACKS),
        # tests/unit/test_gate_settings.py, tests/dashboard/gate/test_gate.py, tests/dashboard/test_log.py and
        # tests/project/test_demo.py check what these break.
        pytest.param({"PRESENCE_LOG": "yaml"}, "PRESENCE_LOG must be text or json.", marks=SOAK_ONLY),
        pytest.param(
            {"PRESENCE_DASHBOARD_ACCESS": "password", "PRESENCE_STAFF_FILE": "/no/file"},
            "PRESENCE_STAFF_FILE must name a file that exists: presence staff add writes it.",
            marks=SOAK_ONLY,
        ),
        pytest.param(
            {"PRESENCE_DASHBOARD_ACCESS": "passwords"}, "PRESENCE_DASHBOARD_ACCESS must be one of", marks=SOAK_ONLY
        ),
        pytest.param(
            {"PRESENCE_DASHBOARD_ACCESS": "password"},
            "PRESENCE_STAFF_FILE must name the password file",
            marks=SOAK_ONLY,
        ),
        pytest.param(
            {"PRESENCE_DASHBOARD_ACCESS": "oidc", "STREAMLIT_SECRETS_FILES": "/etc/passwd"}, OIDC_LACKS, marks=SOAK_ONLY
        ),
        pytest.param(
            {"STREAMLIT_SERVER_ADDRESS": "0.0.0.0"}, "STREAMLIT_SERVER_ADDRESS must be 127.0.0.1", marks=SOAK_ONLY
        ),
    ],
)
def test_a_wrong_setting_of_the_sign_in_ends_the_program_before_it_listens(
    environ: dict[str, str], sentence: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "presence_core", "dashboard", "--port", "0"],
        env=os.environ | {"PRESENCE_REDIS_URL": "redis://127.0.0.1:1"} | environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(sentence)
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("lacking", ["streamlit", "pandas"])
def test_a_missing_extra_is_reported_with_the_install_command(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setitem(sys.modules, lacking, None)  # Python marks a module that cannot be imported like this
    assert refused(capfd) == (
        "The dashboard is not installed: install the extra dashboard (in a checkout: pip install '.[dashboard]')"
    )
