"""``presence notices``: it mails users about odd logins, and says how that goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from presence_core.operations.notices.queue import HOLD
from tests.cli.conftest import ROOT, Run
from tests.conftest import on
from tests.support.facade import P
from tests.support.programs.webhook_receiver import until
from tests.web.notices.mail_server import LINK, MailServer, mail_server, part
from tests.web.notices.test_sender import new_device, sending
from tests.web.your_devices.device_sites import KEY

WORDS = ("notices", "--address-of", "shop_accounts:address_of", "--url", LINK.url, "--site", "Paperboat",
         "--from", "no-reply@shop.example")  # fmt: skip


@pytest.fixture
def mails() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


ADDRESS_OF = "def address_of(uid):\n    return f'{uid}@mail.example', 'de'\n"


@contextmanager
def running(
    environ: dict[str, str], mails: MailServer, tmp_path: Path, address_of: str = ADDRESS_OF
) -> Iterator[subprocess.Popen[str]]:
    """The command, in a folder with the site's function."""
    (tmp_path / "shop_accounts.py").write_text(address_of)
    (tmp_path / "smtp").write_text(f"smtp://127.0.0.1:{mails.port}\n")
    (tmp_path / "key").write_text(KEY)
    own = {"PRESENCE_SMTP_URL_FILE": "smtp", "PRESENCE_NOTICE_KEY_FILE": "key", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "presence_core", *WORDS]
    with subprocess.Popen(
        command, env=environ | own, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"Sending notices; their links lead to {LINK.url}.\n"
        try:
            yield process
        finally:
            process.kill()


@on("valkey-sync")
def test_the_command_mails_and_ends_with_sigterm(
    p: P, environ: dict[str, str], mails: MailServer, tmp_path: Path, run: Run
) -> None:
    assert run("notices") == (0, "No sender of notices has run.\n", "")
    with running(environ, mails, tmp_path) as process:
        until(lambda: p.notices().turn_at)
        login = new_device(p)
        until(lambda: p.notices().counts["sent"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    [mail] = mails.mails
    assert mail["To"] == "ada@mail.example"
    assert LINK.make("ada", login.session_id, login.login_at) in part(mail, "plain")
    assert "Waren Sie das?" in mail["Subject"]
    code, out, _ = run("notices", "--json")
    assert (code, json.loads(out)["counts"]["sent"]) == (0, 1)
    assert "Counts: sent 1." in run("notices")[1]


@on("valkey-sync")
def test_the_command_ends_with_an_error_when_its_sender_has_ended(
    p: P, environ: dict[str, str], mails: MailServer, tmp_path: Path
) -> None:
    with running(environ, mails, tmp_path, "def address_of(uid):\n    raise KeyboardInterrupt\n") as process:
        until(lambda: p.notices().turn_at)
        new_device(p)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "The sender of notices has ended: its error is above." in err


@on("valkey-sync")
def test_a_mail_whose_sender_is_killed_is_not_sent_again_and_is_reported(
    p: P, environ: dict[str, str], mails: MailServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(environ, mails, tmp_path) as process:
        until(lambda: p.notices().turn_at)
        asked: list[int] = []

        def kill() -> str:
            asked.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            return "451 too late"

        mails.on_data = kill
        new_device(p)
        assert process.wait(30) == -signal.SIGKILL
    assert [notice.state for notice in p.notices_of("ada")] == ["sending"]
    mails.on_data = lambda: None
    p.freeze()
    p.advance(HOLD + 60)
    with sending(p, mails.send):
        until(lambda: p.notices().counts["unsure"])
    assert (len(asked), mails.mails) == (1, [])
    assert [notice.state for notice in p.notices_of("ada")] == ["unsure"]
    assert "1 notices may be missing: their sender stopped while it sent" in [
        record.getMessage() for record in caplog.records
    ]
    assert any("may be missing" in finding.text for finding in p.health().findings)


@on("valkey-sync")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (WORDS[:3], "--url must be given together with --address-of."),
        (WORDS, "PRESENCE_SMTP_URL must be set: smtps://user:password@mail.example."),
        (("--smtp", *WORDS), 'PRESENCE_NOTICE_KEY must be set to the key of "Your devices": links are signed with it.'),
        (("--smtp", "--key", *WORDS[:2], "json:nothing", *WORDS[3:]), "--address-of must be like shop.accounts:"),
        (("--smtp", "--key", *WORDS[:2], "json:__name__", *WORDS[3:]), "--address-of must name a function."),
        (("--smtp", "--key", *WORDS[:2], "json:dumps", *WORDS[3:], "--days", "0"), "--days must be a whole number"),
        (("--smtp", "--key", *WORDS[:2], "json:dumps", *WORDS[3:], "--per-day", "0"), "--per-day must be a whole"),
        (("--smtp", "--key", *WORDS[:2], "json:dumps", *WORDS[3:8], "nobody"), "--from must be an address"),
        (("--smtp", "--short-key", *WORDS[:2], "json:dumps", *WORDS[3:]), "PRESENCE_NOTICE_KEY must be text or bytes"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_in_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    given = {"--smtp": ("PRESENCE_SMTP_URL", "smtp://localhost"), "--key": ("PRESENCE_NOTICE_KEY", KEY),
             "--short-key": ("PRESENCE_NOTICE_KEY", "short")}  # fmt: skip
    for word in set(words) & given.keys():
        monkeypatch.setenv(*given[word])
    code, out, err = run(*(word for word in words if word not in given))
    assert (code, out) == (2, "")
    assert sentence in err
