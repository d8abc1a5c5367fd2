"""Mails by SMTP: over TLS to a server whose certificate is checked, with a password."""

from __future__ import annotations

import ssl
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

from presence_core.models import Notice
from presence_core.web.notices.mail import NoticeMail, NotSent
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
