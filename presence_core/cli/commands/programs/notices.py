"""Mails to users about odd logins: ``presence notices``."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from presence_core.cli.arguments import LOG_HELP, AddCommand
from presence_core.cli.output import print_error, print_result
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.files.secret_files import read_secret
from presence_core.logs import start_logs
from presence_core.models import NoticeReport

if TYPE_CHECKING:
    from presence_core.web.notices.sender import NoticeSender

SMTP_URL: Final = "PRESENCE_SMTP_URL"
KEY: Final = "PRESENCE_NOTICE_KEY"

_NEEDED: Final = ("url", "site", "sender")
_OPTIONS: Final = {"site": "--site", "sender": "--from", "url": "--url", "days": "--days", "per_day": "--per-day"}


def add_commands(add_command: AddCommand) -> None:
    help = "Mail users about odd logins, until Ctrl-C; without --address-of, say how that goes."
    notices = add_command("notices", _notices, help, changes=lambda args: args.address_of is not None)
    notices.epilog = LOG_HELP
    notices.add_argument("--address-of", metavar="MODULE:FUNCTION", help="function of your site: user id → (mail "
                         "address, language), or None for no mail")  # fmt: skip
    notices.add_argument("--url", metavar="URL", help="of the page of the link: https://shop.example/devices/notice")
    notices.add_argument("--site", metavar="NAME", help="the name of your site in the mails")
    notices.add_argument("--from", dest="sender", metavar="ADDRESS", help='such as "Shop <no-reply@shop.example>"')
    notices.add_argument("--days", type=int, default=7, help="how long a link is valid (default 7)")
    notices.add_argument("--per-day", type=int, default=5, help="mails that a user gets in a day (default 5)")


def _notices(presence: Presence, args: argparse.Namespace) -> int:
    if args.address_of is None:
        report = presence.notices()
        print_result(args, report, _lines(report))
        return 0
    made = _sender(presence, args)
    start_logs(args.environ)
    terminated = threading.Event()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    print_result(args, {"url": args.url}, [f"Sending notices; their links lead to {args.url}."])
    sys.stdout.flush()
    with made:
        while not terminated.wait(0.2):
            if not made.is_running:
                print_error("The sender of notices has ended: its error is above.")
                return 1
    return 0


def _sender(presence: Presence, args: argparse.Namespace) -> NoticeSender:
    from presence_core.web.notices.link import NoticeLink  # other commands need not wait for these
    from presence_core.web.notices.sender import NoticeSender
    from presence_core.web.notices.smtp import SmtpServer

    for name in _NEEDED:
        if getattr(args, name) is None:
            raise InvalidArgument(_OPTIONS[name], "must be given together with --address-of", "required")
    smtp, key = read_secret(args.environ, SMTP_URL).strip(), read_secret(args.environ, KEY)
    if not smtp:
        raise InvalidArgument(SMTP_URL, "must be set: smtps://user:password@mail.example", "required")
    if not key:
        raise InvalidArgument(KEY, 'must be set to the key of "Your devices": links are signed with it', "required")
    address_of = _function(args.address_of)
    try:
        link = NoticeLink(url=args.url, key=key, days=args.days)
    except InvalidArgument as error:
        raise InvalidArgument(KEY if error.field == "key" else _OPTIONS[error.field], error.rule, error.code) from None
    try:
        send = SmtpServer(smtp, args.sender)
    except InvalidArgument as error:
        raise InvalidArgument(SMTP_URL if error.field == "url" else "--from", error.rule, error.code) from None
    try:
        return NoticeSender(presence, link=link, address_of=address_of, send=send, site=args.site, per_day=args.per_day)
    except InvalidArgument as error:
        raise InvalidArgument(_OPTIONS[error.field], error.rule, error.code) from None


def _function(path: str) -> Callable[[str], Any]:
    """The function that "shop.accounts:address_of" names. Modules of the working directory are found, too."""
    name, _, attribute = path.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        rule = f"must be like shop.accounts:address_of ({error})"
        raise InvalidArgument("--address-of", rule, "malformed") from None
    finally:
        del sys.path[0]
    if not callable(found):
        raise InvalidArgument("--address-of", "must name a function", "wrong_type")
    function: Callable[[str], Any] = found
    return function


def _lines(report: NoticeReport) -> list[str]:
    if report.turn_at is None:
        return ["No sender of notices has run."]
    counts = ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in report.counts.items() if number)
    lines = [f"Users with a notice in the queue: {report.waiting:,}.", f"Counts: {counts or 'none'}."]
    lines.append(f"A sender looked at the queue at {report.turn_at:%Y-%m-%d %H:%M:%S} UTC.")
    if report.failing_since is not None:
        lines.append(f"Nothing can be sent since {report.failing_since:%Y-%m-%d %H:%M:%S} UTC: {report.failure}.")
    if report.unsure_at is not None:
        lines.append(f"Mails may be missing; the last was found at {report.unsure_at:%Y-%m-%d %H:%M:%S} UTC.")
    return lines
