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

_LIMITS: Final = {
    "ends": "ends of sessions per minute",
    "logins": "logins per minute",
    "failed": "failed sign-ins per minute",
    "failed_of_person": "failed sign-ins of a person since their last login",
    "failed_of_network": "failed sign-ins from a network within an hour",
}
"""Arguments of AlertWebhook, with the help of their options."""


def _option(name: str) -> str:
    return f"--alert-{name.replace('_', '-')}"


def add_alerts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("alerts", f"A webhook, signed with the secret in {SECRET}, is sent when a count "
                                      "goes above its limit, and when it is back.")  # fmt: skip
    group.add_argument("--alert-url", metavar="URL", help=f"where to send alerts (default: {URL})")
    for name, help in _LIMITS.items():
        group.add_argument(_option(name), type=int, metavar="LIMIT", help=help)
    group.add_argument("--alert-people", action="store_true", help="each login of a person on the shared watch list")


def alert_webhook(args: argparse.Namespace, environ: Mapping[str, str]) -> AbstractContextManager[AlertWebhook | None]:
    """The webhook that the options describe; None without any of them. Raises InvalidArgument."""
    limits = {name: getattr(args, f"alert_{name}") for name in _LIMITS}
    is_wanted = args.alert_people or any(limit is not None for limit in limits.values())
    if not is_wanted and args.alert_url is None:
        return contextlib.nullcontext()
    if not getattr(args, "worker", True):
        raise InvalidArgument("--worker", "must be given for alerts: the worker checks the limits", "required")
    url, secret = args.alert_url or read_secret(environ, URL).strip(), read_secret(environ, SECRET)
    if not url:
        raise InvalidArgument("--alert-url", "must be given for alerts: where to send them", "required")
    if not is_wanted:
        raise InvalidArgument("--alert-ends", "or another --alert- option must be given: what to alert of", "required")
    if len(secret) < 16 or not secret.isprintable():
        raise InvalidArgument(SECRET, "must be set to a text of at least 16 characters: alerts are signed with it")
    try:
        return AlertWebhook(url, secret, **limits, people=args.alert_people)
    except InvalidArgument as error:
        raise InvalidArgument(_option(error.field), error.rule, error.code) from None
