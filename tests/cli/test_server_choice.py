"""Which server a command uses, and that it says so: a private server starts only on request, and REDIS_URL counts only
where our data is."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from presence_core import cli
from tests.cli.conftest import ROOT
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P
from tests.support.servers import Server, missing, redis_binary, valkey_binary, wait_for

NOT_SET = (
    'PRESENCE_REDIS_URL must be set: to the URL of your Redis, or to "embedded" for a private server on this machine.\n'
)

CHANGES = (
    "login ada --name Ada", "logout ada session-1", "kick ada --reason x", "block eve --reason x",
    "kick-refs ada:session-1 --reason x",
    "unblock eve --reason x", "kick-where --uid ada --reason x --yes --expected 9",
    "block-rule add --network 198.51.100.7 --reason x --yes --expected 9", "block-rule remove none --reason x",
    "require-sign-in ada --reason x", "change-timeouts ada --idle-timeout 9 --reason x",
    "revoke-before --before now --reason x --yes", "job no-such-job --pause",
    "erase ada --reason x --yes",
    "export-person bob", "export", "import -", "staff add dana --role admin", "staff role dana support --break-glass",
    "staff remove dana --break-glass", "keys add shop --scope read", "keys remove shop", "sweep", "repair", "reindex",
    "reshard --shards 1", "rotate-device-key --reason x",
)  # fmt: skip

READS = (
    "counts", "stats", "list", "show ada", "sign-ins ada", "people ada", "facets device", "history", "ended",
    "failed-logins", "blocks", "audit", "jobs",
    "job no-such-job", "kick-where --uid ada --dry-run", "import - --dry-run", "block-rule list",
    "block-rule preview --network 198.51.100.7", "staff list", "keys list", "doctor", "status", "notices",
)  # fmt: skip

ELSEWHERE = {"watch", "worker", "serve", "mirror", "dashboard", "demo", "completion"}
"""Commands that run until Ctrl-C, or need no server."""


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment that names no server; and where a private server would have its data."""
    for name in ("PRESENCE_REDIS_URL", "REDIS_URL", "PRESENCE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PRESENCE_DATA_DIR", str(tmp_path / "private"))
    return tmp_path / "private"


@pytest.mark.parametrize(
    "words", ["list", "counts --json", "revoke-before --before now --reason x --yes", "worker", "serve", "dashboard"]
)
def test_without_a_server_a_command_says_one_sentence_and_starts_none(
    nowhere: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    assert cli.main([*words.split(), *(["--port", "0"] if words == "dashboard" else [])]) == 2
    captured = capsys.readouterr()
    refused = '{"field": "PRESENCE_REDIS_URL", "code": "invalid"}\n' if "--json" in words else ""
    assert (captured.out, captured.err) == (refused, NOT_SET)
    assert not nowhere.exists()


@pytest.mark.parametrize("words", ["--embedded login ada", "login ada --embedded", "login ada"])
def test_the_private_server_starts_on_request_and_is_named(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    is_named = "--embedded" not in words
    monkeypatch.setenv("PRESENCE_REDIS_URL", "embedded" if is_named else "redis://127.0.0.1:1")
    assert cli.main(words.split()) == 0
    line = f"Using the embedded server, Redis at {(nowhere / 'server.sock').resolve()}, namespace online.\n"
    assert capsys.readouterr().err == line
    assert cli.main(["staff", "list", "--embedded"]) == 0


@on("valkey-sync")
def test_a_command_that_changes_something_names_server_and_namespace_and_others_do_not(
    environ: dict[str, str], bed: Bed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bed.raw.connection_pool.connection_kwargs["path"]
    line = f"Using Redis at {path}, namespace {bed.namespace}."
    for words in CHANGES:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"uid": "cleo"}')))
        cli.main(words.split())
        assert capsys.readouterr().err.splitlines()[:1] == [line], words
    for words in READS:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"uid": "cleo"}')))
        cli.main(words.split())
        assert "Using" not in capsys.readouterr().err, words
    [commands] = [a for a in cli.build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    assert {words.split()[0] for words in (*CHANGES, *READS)} | ELSEWHERE == set(commands.choices)


@every_topology
def test_the_line_names_each_kind_of_server_and_no_password(
    environ: dict[str, str], bed: Bed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if bed.url.startswith("unix://"):  # a user without a password accepts every password
        monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url.replace("unix://", "unix://default:s3cret@"))
    assert cli.main(["login", "ada"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    kinds = {
        "cluster": "the Redis Cluster of 127.0.0.1:",
        "sentinel": "Redis master mymaster of the Sentinels 127.0.0.1:",
    }
    assert line.startswith(f"Using {kinds.get(bed.backend.server, 'Redis at /')}")
    assert line.endswith(f", namespace {bed.namespace}.")
    assert "s3cret" not in line


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path / "redis", port=True) as running:
        yield running


def test_a_database_and_a_port_are_part_of_the_name(
    nowhere: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", f"redis://default:s3cret@127.0.0.1:{server.port}/3")
    assert cli.main(["login", "ada"]) == 0
    assert capsys.readouterr().err == f"Using Redis at 127.0.0.1:{server.port}, database 3, namespace online.\n"


# -- REDIS_URL --------------------------------------------------------------------------------------------------------


def test_redis_url_counts_only_where_our_namespace_is_and_nothing_is_written_elsewhere(
    nowhere: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDIS_URL", server.url)
    refusal = (
        "PRESENCE_REDIS_URL must be set: the server of REDIS_URL has no namespace online, so it may be for another "
        "program.\n"
    )
    for word in ("counts", "worker", "serve"):
        assert cli.main([word]) == 2
        assert capsys.readouterr().err == refusal
    assert server.command("DBSIZE") == 0
    server.command("SET", "{online}:layout", "the key of another program")
    assert cli.main(["sweep"]) == 2
    assert capsys.readouterr().err == refusal
    server.command("DEL", "{online}:layout")
    assert server.command("DBSIZE") == 0

    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    assert cli.main(["login", "ada"]) == 0
    monkeypatch.delenv("PRESENCE_REDIS_URL")
    capsys.readouterr()
    assert cli.main(["counts", "--json"]) == 0
    assert '"sessions": 1' in capsys.readouterr().out
    monkeypatch.setenv("PRESENCE_NAMESPACE", "shop")
    assert cli.main(["counts"]) == 2


@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [
        ("redis://:s3cret@127.0.0.1:1", 3, "Redis at 127.0.0.1:1 cannot be reached"),
        ("memcached://s3cret", 2, "REDIS_URL must begin with redis://"),
        ("redis://127.0.0.1:s3cret", 2, "REDIS_URL cannot be read"),
        ("redis://:s3cret[@127.0.0.1", 2, "REDIS_URL cannot be read"),
    ],
)
def test_a_redis_url_that_does_not_work_is_one_sentence(
    nowhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    code: int,
    sentence: str,
) -> None:
    monkeypatch.setenv("REDIS_URL", url)
    assert cli.main(["counts"]) == code
    err = capsys.readouterr().err
    assert err.startswith(sentence)
    assert err.count("\n") == 1
    assert "s3cret" not in err


def test_a_password_with_a_bracket_is_refused_with_one_sentence(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", "redis://:s3cret[@127.0.0.1")
    assert cli.main(["counts"]) == 2
    assert capsys.readouterr().err == (
        "url cannot be read: check host, port and options; in user name, password and path, write / as %2F, # as %23, "
        "? as %3F, @ as %40 and % as %25.\n"
    )


# -- commands that run until Ctrl-C -----------------------------------------------------------------------------------


@on("valkey-sync")
@pytest.mark.parametrize("words", ["worker", "serve --port 0"])
def test_worker_and_service_name_the_server_when_they_start(
    p: P, environ: dict[str, str], bed: Bed, tmp_path: Path, words: str
) -> None:
    path = bed.raw.connection_pool.connection_kwargs["path"]
    log, line = tmp_path / "stderr", f"Using Redis at {path}, namespace {bed.namespace}."
    with log.open("wb") as stderr:
        command = [sys.executable, "-m", "presence_core.cli", *words.split()]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        wait_for("the line", lambda: f" INFO presence_core.cli: {line}\n" in log.read_text())
    finally:
        process.kill()
        process.wait()
