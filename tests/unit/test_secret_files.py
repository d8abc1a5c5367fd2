"""Secrets by file: a variable, or its twin with _FILE."""

from __future__ import annotations

from pathlib import Path

import pytest

from presence_core import InvalidArgument, Presence, cli
from presence_core.cli import build_parser
from presence_core.cli.alerts import alert_webhook
from presence_core.files.secret_files import LONGEST, SECRETS, read_secret, with_secret

URL = "redis://:canary-4f1d@127.0.0.1:1/0"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{URL}\n")
    return path


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_in_its_variable_or_in_the_file_that_its_twin_names(name: str, file: Path) -> None:
    assert read_secret({}, name) == ""
    assert read_secret({name: URL}, name) == URL
    assert read_secret({name: URL, f"{name}_FILE": ""}, name) == URL
    assert read_secret({f"{name}_FILE": str(file)}, name) == URL
    assert read_secret({name: "", f"{name}_FILE": str(file)}, name) == URL


def test_only_line_ends_are_removed_and_only_at_the_end(file: Path) -> None:
    for content, expected in {"a\r\n": "a", "a\n\n": "a", " a ": " a ", "a\nb\n": "a\nb"}.items():
        file.write_bytes(content.encode())
        assert read_secret({"PRESENCE_ALERT_SECRET_FILE": str(file)}, "PRESENCE_ALERT_SECRET") == expected


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, r"must name a file that can be read \(No such file or directory\)"),
        (b"\n", "must name a file with 1 to 65,536 bytes of text"),
        (b"canary-4f1d" + b"x" * LONGEST, "must name a file with 1 to 65,536 bytes of text"),
        (b"canary-4f1d\xff", "must name a file with text in UTF-8"),
    ],
)
def test_a_file_without_a_secret_gets_one_sentence_without_its_content(
    file: Path, content: bytes | None, rule: str
) -> None:
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(InvalidArgument, match=rf"^PRESENCE_REDIS_URL_FILE {rule}\.$") as refused:
        Presence.from_env({"PRESENCE_REDIS_URL_FILE": str(file)})
    assert "canary" not in str(refused.value)


def test_a_directory_is_no_secret(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^PRESENCE_REDIS_URL_FILE must name a file .*\(Is a directory\)\.$"):
        Presence.from_env({"PRESENCE_REDIS_URL_FILE": str(tmp_path)})


def test_a_variable_and_its_twin_together_are_refused_by_name(file: Path) -> None:
    sentence = r"^PRESENCE_REDIS_URL_FILE must not be set together with PRESENCE_REDIS_URL: unset one of them\.$"
    with pytest.raises(InvalidArgument, match=sentence) as refused:
        Presence.from_env({"PRESENCE_REDIS_URL": URL, "PRESENCE_REDIS_URL_FILE": str(file)})
    assert "canary" not in str(refused.value)


def test_the_client_connects_to_the_url_in_the_file(file: Path) -> None:
    with Presence.from_env({"PRESENCE_REDIS_URL_FILE": str(file)}) as presence:
        pool = presence.internal.redis_client.connection_pool
        assert pool.connection_kwargs["port"] == 1
        assert pool.connection_kwargs["password"] == "canary-4f1d"


def test_a_command_says_in_one_sentence_that_the_file_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PRESENCE_REDIS_URL", raising=False)
    monkeypatch.setenv("PRESENCE_REDIS_URL_FILE", str(tmp_path / "none"))
    assert cli.main(["counts"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "PRESENCE_REDIS_URL_FILE must name a file that can be read (No such file or directory).\n"


def test_alerts_take_their_address_and_their_secret_from_files(tmp_path: Path) -> None:
    url, secret = tmp_path / "url", tmp_path / "secret"
    url.write_text("https://chat.example/hook?key=1\n")
    secret.write_text("a secret that only two know\n")
    environ = {"PRESENCE_ALERT_URL_FILE": str(url), "PRESENCE_ALERT_SECRET_FILE": str(secret)}
    with alert_webhook(build_parser().parse_args(["worker", "--alert-ends", "5"]), environ) as alerts:
        assert alerts is not None
        assert alerts.limits == {"ends": 5}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_a_program_chooses_takes_the_place_of_the_file(name: str, file: Path) -> None:
    environ = with_secret({f"{name}_FILE": str(file), "OTHER": "kept"}, name, "chosen")
    assert environ == {name: "chosen", "OTHER": "kept"}
    assert read_secret(environ, name) == "chosen"
