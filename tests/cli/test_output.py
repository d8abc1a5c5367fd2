"""Output to a terminal, to a file, and to closed streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from presence_core.cli.output import table, to_json
from tests.cli.conftest import ROOT, Run
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.server_line import without_server_line
from tests.support.soak import size


@on("valkey-sync")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a disk that is always full")
def test_output_that_cannot_be_written_is_reported_in_one_sentence(
    p: P, run: Run, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    p.login("ada")
    sentence = "The output could not be written: No space left on device.\n"
    with monkeypatch.context() as patch, open("/dev/full", "w") as full:
        patch.setattr("sys.stdout", full)
        assert run("counts", "--json") == (4, "", sentence)
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "presence_core.cli", "export"]
        done = subprocess.run(command, cwd=ROOT, env=environ, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, without_server_line(done.stderr)) == (4, sentence)


@on("valkey-sync")
def test_a_refused_argument_is_a_sentence_and_with_json_also_its_field_and_code(p: P, run: Run) -> None:
    words = ["kick", "ada", "--reason", "x" * 501]
    code, output, sentence = run(*words)
    assert (code, output) == (2, "")
    assert sentence.startswith("reason must be text")
    code, output, again = run(*words, "--json")
    assert (code, again) == (2, sentence)
    assert json.loads(output) == {"field": "reason", "code": "too_long"}


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a disk that is always full")
def test_help_version_and_completion_that_cannot_be_written_are_reported_too(unbuffered: str) -> None:
    environ = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    for words in (["--version"], ["counts", "--help"], ["completion", "fish"]):
        with open("/dev/full", "wb") as full:
            command = [sys.executable, "-m", "presence_core.cli", *words]
            done = subprocess.run(command, cwd=ROOT, env=environ, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (4, "The output could not be written: No space left on device.\n")


@on("valkey-sync")
def test_a_command_works_with_closed_output(
    p: P, run: Run, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service manager or a script may close both streams."""
    p.login("ada")
    for closed, word, code in (("stdout", "list", 0), ("stderr", "no-such-command", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, closed, None)
            assert run(word) == (code, "", "")
            getattr(sys, closed).close()
    shell = ["sh", "-c", '"$@" >&- 2>&-', sys.executable, sys.executable, "-m", "presence_core.cli", "export"]
    done = subprocess.run(shell, cwd=ROOT, env=environ, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("stderr", ["a closed pipe", "a full disk"])
@on("valkey-sync")
def test_a_command_makes_its_change_where_standard_error_cannot_be_written(
    p: P, environ: dict[str, str], stderr: str
) -> None:
    if stderr == "a closed pipe":
        reader, writer = os.pipe()
        os.close(reader)
    elif os.path.exists("/dev/full"):
        writer = os.open("/dev/full", os.O_WRONLY)
    else:
        pytest.skip("only Linux has a disk that is always full")
    command = [sys.executable, "-m", "presence_core.cli"]
    changes = [(["kick", "ada"], ""), (["kick-where", "--uid", "ada"], "1\n")]
    try:
        for words, typed in size(changes[stderr == "a full disk" :][:1], changes):
            p.login("ada")
            shell = [*command, *words, "--reason", "x"]
            done = subprocess.run(
                shell, cwd=ROOT, env=environ, input=typed, stdout=subprocess.PIPE, stderr=writer, text=True
            )
            assert (done.returncode, "1 session" in done.stdout, p.sessions("ada")) == (0, True, []), done.stdout
        assert subprocess.run([*command, "no-such-command"], cwd=ROOT, env=environ, stderr=writer).returncode == 2
    finally:
        os.close(writer)


EVIL = "\x1b]0;owned\x07\x1b[31mRED\nFAKE ROW\x9b2J\u202e"


@on("valkey-sync")
def test_no_escape_sequence_from_a_user_reaches_the_terminal(p: P, bed: Bed, run: Run) -> None:
    session = p.login("ada", name="Ada", device="a\u202eb", aliases=["x\u2028y"]).session
    p.login("bob", name="Bob")
    [left] = p.sessions("bob")
    p.logout("bob", left.session_id)
    shard = p.context.keys.shard("ada")
    bed.raw.hset(shard.record("ada", session.session_id), "n", EVIL.encode())
    bed.raw.hset(shard.person("bob"), "n", EVIL.encode())
    commands = ("list", "list --uid ada", "show ada", "people ada", "people bob", "facets device",
                "kick-where --uid ada --dry-run", "ended", "kick ada --reason x")  # fmt: skip
    for words in commands:
        for as_program in ((), ("--json",)):
            _, out, err = run(*words.split(), *as_program)
            assert out, words
            assert all(char.isprintable() or char == "\n" for char in out + err), words
            if as_program:
                assert out.count("\n") == 1
            else:
                assert "\nFAKE" not in out


def test_json_on_a_terminal_is_the_same_json() -> None:
    value = {"name": EVIL, "É": ["日本", "\x7f\x85\u2028\U000e0001", None, 1.5, True]}
    text = to_json(value)
    assert text.isprintable()
    assert "日本" in text
    assert json.loads(text) == value


def test_columns_of_a_table_are_aligned() -> None:
    rows = list(table([("A", "B"), ("日本", "x"), ("e\u0301e", "x"), ("a\x1bb", "x")]))
    assert rows == ["A" + " " * 9 + "B", "日本      x", "e\u0301e" + " " * 8 + "x", "a\\u{1b}b  x"]
