"""The HTTP service and its API keys: ``presence serve`` and ``presence keys``."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from typing import TYPE_CHECKING, Final

from presence_core import validation as check
from presence_core.cli.alerts import add_alerts, alert_webhook
from presence_core.cli.arguments import LOG_HELP, AddCommand
from presence_core.cli.output import print_error, print_result, records_table
from presence_core.cli.telemetry import start_telemetry
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import InvalidArgument
from presence_core.logs import start_logs
from presence_core.loopback import is_loopback
from presence_core.models import ApiKey, plain
from presence_core.operations.staff.api_keys import SCOPES
from presence_core.worker import Worker

if TYPE_CHECKING:
    from presence_core.web.backchannel_logout import LogoutReceiver

_INSTALL: Final = "The HTTP service is not installed: install the extra web (in a checkout: pip install '.[web]')"


ADDRESS_FROM: Final = "PRESENCE_ADDRESS_FROM"
ISSUERS: Final = "PRESENCE_ISSUERS"
LOGOUT_SPOOL: Final = "PRESENCE_LOGOUT_SPOOL"
_INSTALL_OIDC: Final = "need the extra oidc: install it (in a checkout: pip install '.[oidc]')"

_KEY_COLUMNS: Final = {"ADDED (UTC)": "created", "NAME": "name", "SCOPES": "scopes"}


def add_commands(add_command: AddCommand) -> None:
    serve = add_command("serve", _serve, "Run the HTTP service, until Ctrl-C.", changes=True)
    serve.epilog = LOG_HELP
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1); others need API keys"
    )
    serve.add_argument("--port", type=int, default=8000, help="0 picks a free port (default 8000)")
    serve.add_argument("--worker", action="store_true", help="also run the worker, as presence worker does")
    serve.add_argument(
        "--access-log", action=argparse.BooleanOptionalAction, default=True, help="log each request (default: yes)"
    )
    serve.add_argument(
        "--issuers", metavar="FILE", help=f"receive the logouts of these identity providers (default: {ISSUERS})"
    )
    add_alerts(serve)
    pages = serve.add_argument_group(
        "for a site's own pages", "/counter, /visit and /online, without API keys. --origins turns them on."
    )
    pages.add_argument(
        "--origins",
        nargs="*",
        metavar="ORIGIN",
        help="turn these on; pages of each ORIGIN may call them",
    )
    pages.add_argument(
        "--friends-key", default="", metavar="KEY", help="Redis key of a user's friends, like friends:{uid}"
    )
    pages.add_argument("--cookie", help="the site's cookie with the token (default presence)")
    pages.add_argument("--public", action="store_true", help="let anyone read the names in /online")
    pages.add_argument(
        "--proxies", nargs="+", default=[], metavar="NETWORK", help="trust the visitor's address that these report"
    )
    pages.add_argument(
        "--address-from",
        metavar="HEADER",
        help=f"in this header: forwarded, x-real-ip, … (default: {ADDRESS_FROM}, or x-forwarded-for)",
    )
    keys = add_command(
        "keys",
        _keys,
        "Add, list or remove API keys of the HTTP service.",
        changes=lambda args: args.action != "list",
    )
    keys.add_argument("action", choices=("add", "list", "remove"))
    keys.add_argument("name", nargs="?", help="name of the key; needed to add or remove one")
    keys.add_argument("--scope", action="append", default=[], choices=SCOPES,
                      help="what a new key may do; can be repeated")  # fmt: skip


def _serve(presence: Presence, args: argparse.Namespace) -> int:
    try:
        from presence_core.web.proxies import FORWARDED_FOR, Proxies
        from presence_core.web.service.access_log import ACCESS_LOG
        from presence_core.web.service.api_keys import list_keys
        from presence_core.web.service.server import Offer, await_sigterm, listen, serve
        from presence_core.web.service.site_pages.options import check_pages
    except ModuleNotFoundError:
        print_error(_INSTALL)
        return 2
    start_logs(args.environ)
    with_telemetry = start_telemetry(presence, args.environ)  # presence: of the worker
    if not args.access_log:
        logging.getLogger(ACCESS_LOG).setLevel(logging.WARNING)
    check.whole("port", args.port, 0, 65_535)
    cookie = "presence" if args.cookie is None else args.cookie
    check_pages(args.origins or (), args.friends_key, cookie)
    given = (args.friends_key, args.cookie is not None, args.public, args.proxies, args.address_from is not None)
    if args.origins is None and any(given):
        raise InvalidArgument(
            "--origins", "must be given for the options of a site's own pages: it turns them on", "required"
        )
    if args.address_from is not None and not args.proxies:
        raise InvalidArgument(
            "--proxies", "must be given for --address-from: others could write any address", "required"
        )
    address_from = args.address_from or args.environ.get(ADDRESS_FROM, "").strip() or FORWARDED_FOR
    alerting = alert_webhook(args, os.environ)
    with_keys = bool(list_keys(presence))
    if not with_keys and not is_loopback(args.host):
        raise InvalidArgument("host", "must be 127.0.0.1 as long as there is no API key: presence keys add NAME")
    offer = Offer(with_keys=with_keys, with_pages=args.origins is not None, origins=tuple(args.origins or ()),
                  friends_key=args.friends_key, cookie=cookie, public=args.public,
                  proxies=Proxies(args.proxies, address_from), with_telemetry=with_telemetry,
                  logouts=_logouts(args))  # fmt: skip
    try:
        listening = listen(args.host, args.port)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0]  # create_server adds the address
        print_error(f"Cannot listen on {args.host}:{args.port}: {reason}.")
        return 2
    host, port = listening.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    clients = "for clients with an API key" if with_keys else "for this machine only, without API keys"
    terminated = await_sigterm()  # before a program that waits for the address can send it
    print_result(args, {"url": url, "keys": with_keys}, [f"Serving {url} {clients}. Reference: {url}/docs"])
    sys.stdout.flush()  # a program that started this one may wait for the address
    with (
        listening,
        alerting as alerts,
        Worker(presence, alerts=alerts) if args.worker else contextlib.nullcontext() as worker,
    ):
        serve(lambda: AsyncPresence.from_env(args.environ), offer, listening, terminated, worker)
    return 0


def _logouts(args: argparse.Namespace) -> LogoutReceiver | None:
    """The receiver of the logouts of identity providers, if any are named."""
    file, spool = args.issuers or args.environ.get(ISSUERS, "").strip(), args.environ.get(LOGOUT_SPOOL, "").strip()
    if not file:
        return None
    try:
        from presence_core.web.backchannel_logout import LogoutReceiver, read_issuers
    except ModuleNotFoundError:
        raise InvalidArgument("issuers", _INSTALL_OIDC) from None
    return LogoutReceiver(read_issuers(file), spool=spool or None)


def _keys(presence: Presence, args: argparse.Namespace) -> int:
    try:
        from presence_core.web.service.api_keys import list_keys, make_key, remove_key
    except ModuleNotFoundError:
        print_error(_INSTALL)
        return 2
    if args.action == "list":
        keys = list_keys(presence)
        lines = records_table(_KEY_COLUMNS, keys) if keys else ["There are no API keys."]
        print_result(args, [_without_digest(key) for key in keys], lines)
        return 0
    if args.name is None:
        raise InvalidArgument("name", f"must be given to {args.action} a key", "required")
    if args.action == "remove":
        removed = remove_key(presence, args.name)
        sentence = "Removed. It stops working within 5 seconds." if removed else f"There is no API key {args.name}."
        print_result(args, {"removed": removed}, [sentence])
        return 0 if removed else 1
    if not args.scope:
        raise InvalidArgument("scope", f"must be given: {', '.join(SCOPES)}", "required")
    key, secret = make_key(presence, args.name, args.scope)
    warning = "Store it safely: it is shown only this once, and it is not kept here."
    print_result(args, _without_digest(key) | {"key": secret}, [secret, warning])
    return 0


def _without_digest(key: ApiKey) -> dict[str, object]:
    return {"name": key.name, "scopes": list(key.scopes), "created": plain(key.created)}
