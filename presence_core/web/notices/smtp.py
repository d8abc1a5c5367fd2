"""Send mails by SMTP, with the standard library."""

from __future__ import annotations

import re
import smtplib
import ssl
from email.policy import SMTP
from email.utils import parseaddr
from typing import Final
from urllib.parse import unquote, urlsplit

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.web.notices.mail import NoticeMail, NotSent, Refused, ascii_address, domain_of

__all__ = ["SmtpServer"]

PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}

NO_SUCH_ADDRESS: Final = frozenset({550, 551, 553})
NO_SUCH_ADDRESS_ENHANCED: Final = frozenset({"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"})
"""Replies to RCPT that are about the recipient (RFC 5321, RFC 3463, RFC 7505). Where a reply has an enhanced code, that
one counts: servers also say 550 or 553 when they relay nothing (5.7.1), or dislike the sender (5.1.7, 5.1.8)."""

NO_MAIL_NOW: Final = frozenset({421, 454, 530, 534, 535, 538})
"""Replies that no mail would get past: the server goes away, throttles, or misses a password or TLS."""

URL_RULE: Final = "must be like smtps://user:password@mail.example, smtp+starttls://… or, without TLS, smtp://localhost"


class SmtpServer:
    """``SmtpServer(url, "Shop <no-reply@shop.example>")``, the ``send`` of a NoticeSender.

    url: ``smtps://user:password@host`` (TLS from the start, port 465), ``smtp+starttls://…`` (port 587), or ``smtp://…``
    (port 25, not encrypted: only for a server on this machine, or a network of your own). The certificate is checked.
    Characters such as @ in the password are written as %40. timeout: seconds for each answer of the server, 0.1…60.

    A new connection for each mail. Raises NotSent or Refused only where the server has not taken the mail.
    """

    def __init__(self, url: str, sender: str, *, timeout: float = 10.0) -> None:
        try:
            parts = urlsplit(url if isinstance(url, str) else "")
            self._scheme, self._host, port = parts.scheme, parts.hostname or "", parts.port
        except ValueError:
            raise InvalidArgument("url", URL_RULE) from None
        if self._scheme not in PORTS or not self._host or parts.path not in ("", "/") or parts.query or parts.fragment:
            raise InvalidArgument("url", URL_RULE)
        self._port = port or PORTS[self._scheme]
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        if not (self._user + self._password).isascii():
            raise InvalidArgument("url", "must have a user and a password in ASCII: Python's smtplib sends no others")
        self._sender = check_sender(sender)
        self._timeout = check.duration("timeout", timeout, 0.1, 60)

    def __repr__(self) -> str:
        return f"SmtpServer({self._scheme}://{self._host}:{self._port})"

    def __call__(self, mail: NoticeMail) -> None:
        """Give a mail to the server. Returns once the server has taken it."""
        try:
            content = mail.message(self._sender).as_bytes(policy=SMTP.clone(cte_type="7bit"))
        except Exception as error:
            raise NotSent(type(error).__name__, only_this=True) from error
        server = self._connect()
        try:
            self._name_recipient(server, mail.to)
            _give(server, content)
        finally:
            server.close()

    def _connect(self) -> smtplib.SMTP:
        try:
            name = domain_of(self._sender)  # the default asks DNS for the name of this machine
            server: smtplib.SMTP
            if self._scheme == "smtps":
                server = smtplib.SMTP_SSL(self._host, self._port, name, timeout=self._timeout, context=_tls())
            else:
                server = smtplib.SMTP(self._host, self._port, name, timeout=self._timeout)
            if self._scheme == "smtp+starttls":
                server.starttls(context=_tls())
            server.ehlo_or_helo_if_needed()
            if self._user:
                server.login(self._user, self._password)
        except Exception as error:
            raise NotSent(_words(error)) from None
        return server

    def _name_recipient(self, server: smtplib.SMTP, to: str) -> None:
        sender = parseaddr(self._sender)[1]
        try:
            code, answer = server.mail(sender)
            if code != 250:
                raise NotSent(_status(code, answer))
            code, answer = server.rcpt(to)
        except UnicodeError as error:  # of an address that a site has put into the mail
            raise NotSent(type(error).__name__, only_this=True) from None
        except (OSError, smtplib.SMTPException) as error:
            raise NotSent(_words(error)) from None
        if code in (250, 251):
            return
        enhanced = _enhanced(answer)
        if enhanced in NO_SUCH_ADDRESS_ENHANCED or (not enhanced and code in NO_SUCH_ADDRESS):
            raise Refused(_status(code, answer))
        raise _not_taken(code, answer)


def _give(server: smtplib.SMTP, content: bytes) -> None:
    """DATA. Once the server may have read the end of the mail, a failure leaves it open whether it was taken: then this
    raises an error that is not NotSent."""
    try:
        code, answer = server.docmd("DATA")
        if code != 354:
            raise _not_taken(code, answer)
        # In one call: if it fails, the server has not got the dot at the end.
        dotted = re.sub(rb"(?m)^\.", b"..", content)
        server.send(dotted + (b".\r\n" if content.endswith(b"\r\n") else b"\r\n.\r\n"))
    except (OSError, smtplib.SMTPException) as error:
        raise NotSent(_words(error)) from None
    code, answer = server.getreply()
    if code != 250:
        raise _not_taken(code, answer)


def _not_taken(code: int, answer: bytes) -> NotSent:
    """A reply that may be about this mail or about all: the sender finds out by trying others."""
    return NotSent(_status(code, answer), only_this=code not in NO_MAIL_NOW)


def check_sender(sender: object) -> str:
    """The address of the sender, perhaps with a name. Raises InvalidArgument."""
    if (
        not isinstance(sender, str)
        or not sender.isprintable()
        or ascii_address(parseaddr(sender)[1]) != parseaddr(sender)[1]
    ):
        raise InvalidArgument("sender", 'must be an address: "no-reply@shop.example" or "Shop <no-reply@shop.example>"')
    return sender


def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _words(error: BaseException) -> str:
    """What failed, without what the server said: that may name the address."""
    if isinstance(error, smtplib.SMTPResponseException):
        answer = error.smtp_error
        return _status(error.smtp_code, answer if isinstance(answer, bytes) else answer.encode())
    return getattr(error, "strerror", None) or type(error).__name__


def _status(code: int, answer: bytes) -> str:
    """The codes of a reply: "status 554 5.7.1"."""
    return " ".join(("status", str(code), _enhanced(answer))).rstrip()


def _enhanced(answer: bytes) -> str:
    """The enhanced code at the beginning of a reply (RFC 2034), "" if there is none."""
    found = re.match(rb"[245]\.\d{1,3}\.\d{1,3}(?!\S)", answer)
    return found[0].decode() if found else ""
