"""The sessions that a site has in a store of its own: ``presence mirror``."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import replace
from typing import Any, Final

from presence_core import validation as check
from presence_core.cli.arguments import LOG_HELP, AddCommand
from presence_core.cli.output import ProgressLine, count_of, print_result
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.files.secret_files import read_secret
from presence_core.logs import start_logs
from presence_core.mirror.digests import MiddlewareIds, read_key
from presence_core.mirror.look import Look, lines, look
from presence_core.mirror.loop import NEEDED_FLAGS, SLICE, Mirror
from presence_core.mirror.map_file import read_map
from presence_core.mirror.reconcile import Reconciler
from presence_core.mirror.stores import BY_NAME, STORES, Store
from presence_core.operations.sessions.read import latest
from presence_core.transport.site_store import SiteStore
from presence_core.worker import Worker

VARIABLE: Final = "PRESENCE_MIRROR_FROM"


def add_commands(add_command: AddCommand) -> None:
    help = "Show and end the sessions that a site has in a Redis of its own, until Ctrl-C."
    mirror = add_command("mirror", _mirror, help, changes=lambda args: not args.look)
    mirror.epilog = LOG_HELP
    names = [store.name for store in STORES if not store.refused]
    mirror.add_argument("--store", metavar="NAME", help=f"what keeps the sessions: {', '.join(names)}")
    mirror.add_argument("--from", dest="url", metavar="URL", help=f"the site's Redis (default: {VARIABLE})")
    mirror.add_argument("--prefix", help="what the keys of sessions begin with, if the site has changed it")
    mirror.add_argument("--map", metavar="FILE", help="a TOML file that says where user, name and login time are")
    action = mirror.add_mutually_exclusive_group()
    action.add_argument("--look", action="store_true", help="only say what the site's Redis has")
    action.add_argument("--once", action="store_true", help="import the sessions as they are now, and end")
    mirror.add_argument("--notify", action="store_true", help="turn on the keyspace notifications of the site's Redis")
    mirror.add_argument("--visitors", action="store_true", help="list sessions without a user, too")
    mirror.add_argument("--name", default="", help="of this mirror, if two have the same store and prefix")
    mirror.add_argument("--rate", type=int, default=5000, help="keys read in a second at most (default 5000)")
    mirror.add_argument(
        "--every", type=float, help="seconds between two scans (default 300 with notifications, else 5)"
    )


def _mirror(presence: Presence, args: argparse.Namespace) -> int:
    url = args.url or read_secret(args.environ, VARIABLE)
    if not url:
        raise InvalidArgument("--from", f"must be given, or {VARIABLE}: the URL of the site's Redis", "required")
    check.whole("rate", args.rate, 100, 1_000_000)
    every = None if args.every is None else check.duration("every", args.every, 0.1, 86_400)
    if args.once and args.visitors:
        raise InvalidArgument(
            "--visitors", "must not be given with --once: the middleware knows no such users", "conflicts"
        )
    if args.look:
        return _look(args, url, presence.settings.timeout)
    store = _store(args)
    if store.same_login == "":
        raise InvalidArgument("same_login", "must be given in the map: presence mirror --look says why", "required")
    if store.refused:
        raise InvalidArgument("--store", f"must be another one. {store.refused}")
    site = SiteStore(url, presence.settings.timeout, store.fields)
    try:
        _refuse_cached_db(site, store)
        if args.once:
            return _once(presence, args, site, store)
        return _run(presence, args, site, store, every)
    finally:
        site.close()


def _store(args: argparse.Namespace) -> Store:
    """The store that the options describe."""
    if args.store is None and args.map is None:
        raise InvalidArgument("--store", "must be given: presence mirror --look says which it is", "required")
    store = None
    if args.store is not None:
        store = BY_NAME.get(args.store)
        if store is None:
            raise InvalidArgument("--store", f"must be one of {', '.join(BY_NAME)}", "not_a_choice")
    if args.map is not None:
        store = read_map(args.map, store)
    assert store is not None
    return store if args.prefix is None else replace(store, prefix=args.prefix)


def _refuse_cached_db(site: SiteStore, store: Store) -> None:
    """Refuse a store in which Django also keeps the sessions of cached_db. Looks at up to 10,000 keys."""
    if store.name != "django":
        return
    other = BY_NAME["django-cached-db"]
    prefix = store.prefix + "d_db"
    cursor = 0
    for _ in range(200):  # 10,000 keys
        cursor, keys = site.scan(cursor, prefix, SLICE)
        if keys:
            raise InvalidArgument("--store", f"must be another one. {other.refused}")
        if cursor == 0:
            return


def _look(args: argparse.Namespace, url: str, timeout: float) -> int:
    chosen = (_store(args),) if args.store or args.map else STORES
    sites = {store.name: SiteStore(url, timeout, store.fields) for store in chosen}
    try:
        first = next(iter(sites.values()))
        found = look(first, chosen)
        url_name = args.url if args.url and "@" not in args.url else "URL"
        print_result(args, _as_json(found), lines(found, sites, url_name))
    finally:
        for site in sites.values():
            site.close()
    return 0 if found.found else 1


def _as_json(found: Look) -> dict[str, Any]:
    return {
        "keys": found.looked_at, "is_whole": found.is_whole, "notifications": found.flags,
        "stores": [
            {"store": entry.store.name, "prefix": entry.store.prefix, "keys": entry.keys} for entry in found.found
        ],
    }  # fmt: skip


def _once(presence: Presence, args: argparse.Namespace, site: SiteStore, store: Store) -> int:
    reconciler = Reconciler(presence, site, store, MiddlewareIds(store.prefix))
    reconciler.set_clock(max(edge.now for edge in presence.internal.run(latest(presence.internal.context))))
    cursor, began, read = 0, time.monotonic(), 0
    with ProgressLine() as progress:
        while True:
            cursor, keys = site.scan(cursor, store.prefix, SLICE)
            reconciler.take(list({key: None for key in keys if store.is_session_key(key)}), counts=True)
            read += SLICE
            progress.show(f"{len(reconciler.copies):,} sessions")
            if cursor == 0:
                break
            time.sleep(max(0.0, read / args.rate - (time.monotonic() - began)))
    sentences = [f"Imported {count_of(len(reconciler.copies), 'session')}."]
    if reconciler.without_user:
        sentences.append(f"Without a user: {reconciler.without_user:,}.")
    sentences += [f"Skipped {number:,}: {why}." for why, number in reconciler.skipped.most_common()]
    values = {
        "imported": len(reconciler.copies), "without_user": reconciler.without_user,
        "skipped": dict(reconciler.skipped),
    }  # fmt: skip
    print_result(args, values, sentences)
    return 0


def _run(presence: Presence, args: argparse.Namespace, site: SiteStore, store: Store, every: float | None) -> int:
    start_logs(args.environ)
    mirror = Mirror(
        presence,
        site,
        store,
        read_key(args.environ),
        name=args.name,
        rate=args.rate,
        every=every,
        lists_visitors=args.visitors,
    )
    if args.notify:
        flags = site.notification_flags() or ""
        site.turn_on_notifications("".join(dict.fromkeys(flags + NEEDED_FLAGS)))
    mirror.start()
    how = "hears of changes at once" if mirror.hears == "notifications" else "finds changes by scans"
    print_result(args, {"mirror": mirror.name, "hears": mirror.hears}, [f"Mirroring {store.title}; {how}."])
    sys.stdout.flush()
    thread = threading.Thread(target=mirror.run, name="presence-mirror", daemon=True)
    with Worker(presence):
        thread.start()
        try:
            while thread.is_alive():
                time.sleep(0.2)  # a signal in join() would make Python take the thread for one that has ended
        finally:
            mirror.stop()
            thread.join(10)
    return 0
