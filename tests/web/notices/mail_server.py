"""A mail server for tests: aiosmtpd, on a port that it keeps over a stop and a start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope

from presence_core.web.notices.link import NoticeLink
from presence_core.web.notices.smtp import SmtpServer
from tests.support.fair_clock import PATIENT
from tests.web.your_devices.device_sites import HOST, KEY

SENDER = "Paperboat <no-reply@shop.example>"
LINK = NoticeLink(url=f"{HOST}/devices/notice", key=KEY)


class _Controller(Controller):
    def _trigger_server(self) -> None:
        """Connect once, without TLS: the library would use the server's side of TLS."""
        socket.create_connection((self.hostname, self.port), 10).close()


class MailServer:
    """Takes mails, and answers as ``on_mail``, ``on_rcpt`` and ``on_data`` say."""

    def __init__(self, **options: Any) -> None:
        self._options = options  #: of the Controller: TLS, authentication
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.on_mail: Callable[[], str | None] = lambda: None
        self.on_rcpt: Callable[[str], str | None] = lambda address: None
        self.on_data: Callable[[], str | None] = lambda: None
        self._controller: Controller | None = None
        self._lock = threading.Lock()
        self.start()

    @property
    def send(self) -> SmtpServer:
        return SmtpServer(f"smtp://127.0.0.1:{self.port}", SENDER, timeout=PATIENT)

    def start(self) -> None:
        self._controller = _Controller(self, hostname="127.0.0.1", port=self.port, **self._options)
        self._controller.start()

    def stop(self) -> None:
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    async def handle_MAIL(self, server: SMTP, session: Any, envelope: Envelope, address: str, options: Any) -> str:
        answer = self.on_mail()
        if answer is None:
            envelope.mail_from = address
        return answer or "250 OK"

    async def handle_RCPT(self, server: SMTP, session: Any, envelope: Envelope, address: str, options: Any) -> str:
        answer = self.on_rcpt(address)
        if answer is None:
            envelope.rcpt_tos.append(address)
        return answer or "250 OK"

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Envelope) -> str:
        answer = self.on_data()
        if answer is None:
            with self._lock:
                content = envelope.content
                assert isinstance(content, bytes)
                mail = message_from_bytes(content, policy=default)
                assert isinstance(mail, EmailMessage)
                self.mails.append(mail)
                self.recipients += envelope.rcpt_tos
        return answer or "250 OK"


@contextmanager
def mail_server(**options: Any) -> Iterator[MailServer]:
    server = MailServer(**options)
    try:
        yield server
    finally:
        server.stop()


def part(mail: EmailMessage, kind: str) -> str:
    """The text or the HTML of a mail."""
    body = mail.get_body((kind,))
    assert body is not None
    content: str = body.get_content()
    return content
