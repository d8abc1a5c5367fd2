"""Mails by SMTP: over TLS to a server whose certificate is checked, with a password."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from presence_core import InvalidArgument
from presence_core.models import Notice
from presence_core.web.notices.mail import NoticeMail, NotSent, Refused
from presence_core.web.notices.smtp import SmtpServer
from tests.support.fair_clock import PATIENT
from tests.web.notices.mail_server import SENDER, MailServer, mail_server

NOTICE = Notice(id="a1b2", uid="ada", session_id="session-1", at=datetime.now(UTC), kinds=("distant",), state="sending")
MAIL = NoticeMail(to="ada@mail.example", language="en", subject="Hej, är det du?", text=".\n..\nöh\n", html="<p>é</p>",
                  link="https://shop.example/devices/notice?t=x", notice=NOTICE)  # fmt: skip


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the key of localhost and its self-signed certificate."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]),
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())
    )  # fmt: skip
    file = tmp_path_factory.mktemp("papers") / "localhost.pem"
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return file


def sign_in(server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> AuthResult:
    assert isinstance(given, LoginPassword)
    return AuthResult(success=(given.login, given.password) == (b"shop", b"p@ss"))


@pytest.fixture(params=["smtps", "smtp+starttls"])
def server(request: pytest.FixtureRequest, papers: Path) -> Iterator[tuple[str, MailServer]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers)
    options: dict[str, Any] = {"tls_context": context, "require_starttls": True, "auth_required": True}
    if request.param == "smtps":
        options = {"ssl_context": context, "auth_require_tls": False}
    options["authenticator"] = sign_in
    with mail_server(**options) as running:
        yield request.param, running


def test_mails_go_over_tls_with_a_password(
    server: tuple[str, MailServer], papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme, running = server
    monkeypatch.setenv("SSL_CERT_FILE", str(papers))
    SmtpServer(f"{scheme}://shop:p%40ss@localhost:{running.port}", SENDER, timeout=PATIENT)(MAIL)
    [mail] = running.mails
    assert mail["Subject"] == MAIL.subject
    body = mail.get_body(("plain",))
    assert body is not None
    assert body.get_content() == MAIL.text, "a line with a dot alone does not end the mail"


def test_a_certificate_that_no_one_signed_gets_no_mail_and_no_password(
    server: tuple[str, MailServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme, running = server
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(NotSent) as refused:
        SmtpServer(f"{scheme}://shop:p%40ss@localhost:{running.port}", SENDER, timeout=PATIENT)(MAIL)
    assert "p@ss" not in str(refused.value)
    assert not refused.value.only_this
    assert running.mails == []


@pytest.mark.parametrize(
    ("step", "answer", "meaning"),
    [
        ("rcpt", "550 no such user", "this address"),
        ("rcpt", "551 user not local", "this address"),
        ("rcpt", "553 mailbox name not allowed", "this address"),
        ("rcpt", "550 5.1.1 no such user", "this address"),
        ("rcpt", "550 5.2.1 this mailbox is disabled", "this address"),
        ("rcpt", "501 5.1.3 bad recipient address syntax", "this address"),
        ("rcpt", "556 5.1.10 the domain takes no mail", "this address"),
        ("rcpt", "554 5.7.1 relay access denied", "this mail"),
        ("rcpt", "550 5.7.1 unable to relay", "this mail"),
        ("rcpt", "550 5.1.8 sender address rejected: domain not found", "this mail"),
        ("rcpt", "554 transaction failed", "this mail"),
        ("rcpt", "552 5.2.2 over quota", "this mail"),
        ("rcpt", "452 4.2.2 over quota", "this mail"),
        ("rcpt", "451 4.7.1 greylisted", "this mail"),
        ("data", "554 message rejected: email address is not verified", "this mail"),
        ("data", "550 5.7.1 likely unsolicited mail", "this mail"),
        ("data", "452 4.3.1 out of storage", "this mail"),
        ("rcpt", "530 5.7.0 authentication required", "all"),
        ("rcpt", "454 4.7.1 relay access denied", "all"),
        ("data", "421 4.3.0 try again later", "all"),
        ("data", "454 throttling failure: daily message quota exceeded", "all"),
        ("mail", "550 5.4.5 daily sending quota exceeded", "all"),
        ("mail", "451 4.3.0 try again later", "all"),
    ],
)  # fmt: skip
def test_only_an_address_that_does_not_exist_is_given_up(step: str, answer: str, meaning: str) -> None:
    with mail_server() as server:
        setattr(server, f"on_{step}", lambda *given: answer)
        with pytest.raises((NotSent, Refused)) as caught:
            server.send(MAIL)
    error = caught.value
    found = "this address"
    if isinstance(error, NotSent):
        found = "this mail" if error.only_this else "all"
    assert found == meaning
    assert str(error) == "status " + " ".join(word for word in answer.split() if word[0].isdigit())


def test_a_connection_that_breaks_before_the_end_of_a_mail_has_sent_nothing() -> None:
    """The mail is larger than what the two systems buffer, and the server stops reading."""
    big = dataclasses.replace(MAIL, text=("x" * 70 + "\n") * 250_000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            lines = connection.makefile("rb")
            connection.sendall(b"220 mail.example\r\n")
            for line in lines:
                is_data = line == b"DATA\r\n"
                connection.sendall(b"354 go on\r\n" if is_data else b"250 OK\r\n")
                if is_data:
                    lines.readline()
                    break
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            lines.close()
            connection.close()

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(NotSent) as caught:
            SmtpServer(f"smtp://127.0.0.1:{port}", SENDER, timeout=PATIENT)(big)
        server.join()
    assert not caught.value.only_this


def test_a_password_that_smtp_cannot_send_is_refused_in_a_sentence() -> None:
    for url in ("smtps://shop:gr%C3%BCn@mail.example", "smtps://b%C3%BCcher:green@mail.example"):
        with pytest.raises(InvalidArgument) as refused:
            SmtpServer(url, SENDER)
        assert str(refused.value) == "url must have a user and a password in ASCII: Python's smtplib sends no others."


def test_an_error_before_the_mail_is_handed_over_has_sent_nothing() -> None:
    with mail_server() as server, pytest.raises(NotSent):
        server.send(dataclasses.replace(MAIL, to="ada@büro.example"))  # a mail that a site made
