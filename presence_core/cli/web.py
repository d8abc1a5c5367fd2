"""The HTTP service on the command line: ``presence serve`` and ``presence keys``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from presence_core import settings as check
from presence_core.cli.asked import Maker
from presence_core.cli.shown import columns, complain, say, stamp
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import InvalidArgument
from presence_core.loopback import is_loopback
from presence_core.models import ApiKey, plain
from presence_core.operations.api_keys import SCOPES
from presence_core.worker import Worker

_NEEDS = "This needs more than the library alone: pip install 'presence-core[web]'"


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    serve = command("serve", _serve, "Serve HTTP, until Ctrl-C or SIGTERM.")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1); others need API keys")
    serve.add_argument("--port", type=int, default=8000, help="0: any that is free (8000)")
    serve.add_argument("--worker", action="store_true", help="sweep and sample as well, as presence worker does")
    pages = serve.add_argument_group("for a site's own pages", "/counter, /visit, /online, without API keys.")
    pages.add_argument("--origins", nargs="*", metavar="ORIGIN",
                       help="serve them, to pages of these origins (https://shop.example) and of its own")  # fmt: skip
    pages.add_argument("--friends-key", default="", metavar="KEY", help="where friends are kept: friends:{uid}")
    pages.add_argument("--cookie", default="presence", help="cookie of the site that holds a session token (presence)")
    pages.add_argument("--public", action="store_true", help="/online names everybody to anybody")
    pages.add_argument("--proxies", nargs="+", default=[], metavar="NETWORK", help="whose X-Forwarded-For is believed")
    keys = command("keys", _keys, "API keys of the HTTP service.")
    keys.add_argument("act", choices=("add", "list", "remove"))
    keys.add_argument("name", nargs="?", help="add, remove: who holds it")
    keys.add_argument("--scope", action="append", default=[], choices=SCOPES, help="add: what for; may be given again")


def _serve(presence: Presence, args: argparse.Namespace) -> int:
    try:
        from presence_core.web.keys import list_keys
        from presence_core.web.proxies import Proxies
        from presence_core.web.serving import Offer, listen, serve
    except ModuleNotFoundError:
        complain(_NEEDS)
        return 2
    check.whole("port", args.port, 0, 65_535)
    with_keys = bool(list_keys(presence))
    if not with_keys and not is_loopback(args.host):
        raise InvalidArgument("host", "must be 127.0.0.1 as long as there is no API key: presence keys add NAME")
    offer = Offer(with_keys=with_keys, with_pages=args.origins is not None, origins=tuple(args.origins or ()),
                  friends_key=args.friends_key, cookie=args.cookie, public=args.public,
                  proxies=Proxies(args.proxies))  # fmt: skip
    try:
        listening = listen(args.host, args.port)
    except OSError as error:
        complain(f"{args.host}:{args.port} cannot be listened to ({error.strerror or error}).")
        return 2
    host, port = listening.getsockname()[:2]
    at = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    who = "for whoever has an API key" if with_keys else "for this machine alone, without API keys"
    say(args, {"url": at, "keys": with_keys}, [f"Serving {at} {who}; reference: {at}/docs"])
    sys.stdout.flush()  # whoever started this may be waiting for the address
    with listening, Worker(presence) if args.worker else contextlib.nullcontext():
        serve(lambda: AsyncPresence.from_env(os.environ), offer, listening)
    return 0


def _keys(presence: Presence, args: argparse.Namespace) -> int:
    try:
        from presence_core.web.keys import list_keys, make_key, remove_key
    except ModuleNotFoundError:
        complain(_NEEDS)
        return 2
    if args.act == "list":
        found = list_keys(presence)
        rows: list[Sequence[str]] = [("MADE (UTC)", "NAME", "SCOPES")]
        rows += [(stamp(one.created), one.name, ", ".join(one.scopes)) for one in found]
        say(args, [_told(one) for one in found], columns(rows) if found else ["There is no API key."])
        return 0
    if args.name is None:
        raise InvalidArgument("name", f"must be given to {args.act} a key")
    if args.act == "remove":
        gone = remove_key(presence, args.name)
        said = (
            "It opens nothing any more, 5 seconds from now at the latest." if gone else "There was none of this name."
        )
        say(args, {"removed": gone}, [said])
        return 0 if gone else 1
    if not args.scope:
        raise InvalidArgument("scope", f"must be given: {', '.join(SCOPES)}")
    key, secret = make_key(presence, args.name, args.scope)
    say(args, _told(key) | {"key": secret}, [secret, "Keep it well: it is shown this once, and stored nowhere."])
    return 0


def _told(key: ApiKey) -> dict[str, object]:
    """A key without its digest."""
    return {"name": key.name, "scopes": list(key.scopes), "created": plain(key.created)}
