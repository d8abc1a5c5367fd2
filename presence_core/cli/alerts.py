"""The options for alerts, of the commands that run a worker."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from presence_core.errors import InvalidArgument
from presence_core.files.secret_files import read_secret
from presence_core.web.webhooks import AlertWebhook

URL: Final = "PRESENCE_ALERT_URL"
"""A URL that holds a key of the receiver belongs here: the arguments of a process are visible to others."""

SECRET: Final = "PRESENCE_ALERT_SECRET"

_NAMES: Final = {"url": "--alert-url", "ends": "--alert-ends", "logins": "--alert-logins"}


def add_alerts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("alerts", f"A webhook, signed with the secret in {SECRET}, is sent when a count "
                                      "goes above its limit, and when it is back.")  # fmt: skip
    group.add_argument("--alert-url", metavar="URL", help=f"where to send alerts (default: {URL})")
    group.add_argument("--alert-ends", type=int, metavar="LIMIT", help="ends of sessions per minute")
    group.add_argument("--alert-logins", type=int, metavar="LIMIT", help="logins per minute")
    group.add_argument("--alert-people", action="store_true", help="each login of a person on the shared watch list")


def alert_webhook(args: argparse.Namespace, environ: Mapping[str, str]) -> AbstractContextManager[AlertWebhook | None]:
    """The webhook that the options describe; None without any of them. Raises InvalidArgument."""
    given = (args.alert_url, args.alert_ends, args.alert_logins)
    if all(value is None for value in given) and not args.alert_people:
        return contextlib.nullcontext()
    if not getattr(args, "worker", True):
        raise InvalidArgument("--worker", "must be given for alerts: the worker checks the limits", "required")
    url, secret = args.alert_url or read_secret(environ, URL).strip(), read_secret(environ, SECRET)
    if not url:
        raise InvalidArgument("--alert-url", "must be given for alerts: where to send them", "required")
    if args.alert_ends is None and args.alert_logins is None and not args.alert_people:
        raise InvalidArgument(
            "--alert-ends", "or --alert-logins must be given, the limit per minute, or --alert-people", "required"
        )
    if len(secret) < 16 or not secret.isprintable():
        raise InvalidArgument(SECRET, "must be set to a text of at least 16 characters: alerts are signed with it")
    try:
        return AlertWebhook(url, secret, ends=args.alert_ends, logins=args.alert_logins, people=args.alert_people)
    except InvalidArgument as error:
        raise InvalidArgument(_NAMES[error.field], error.rule, error.code) from None
