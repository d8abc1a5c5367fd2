"""Who is online: ``presence counts``, ``list``, ``show``, ``people``, ``facets`` and ``watch``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from presence_core.cli.asked import Maker, add_cursor, add_filters, add_limit, session_filter
from presence_core.cli.shown import as_json, columns, go_on, number_of, say, stamp
from presence_core.client import Presence
from presence_core.filters import SessionFilter
from presence_core.models import Page, Plan, Session

_DRIVES: Final = {
    "uid": "the user's own sessions",
    "text": "entries of the indexes of words and addresses",
    "name": "entries of the index of names",
    "ip": "entries of the index of addresses",
    "login": "sessions between two login times, the newest first",
    "list": "sessions of the list, the newest first",
}

_NEEDED_BY_PEOPLE: Final = {"uid", "name", "alias"}


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    command("counts", _counts, "How many are online, and totals by reason.")
    listing = command("list", _list, "Live sessions, all or those that match, newest login first.")
    add_limit(listing)
    instead = listing.add_mutually_exclusive_group()
    add_cursor(instead)
    instead.add_argument("--count", action="store_true", help="only how many there are, counted to the end")
    instead.add_argument("--explain", action="store_true", help="only how they would be looked for")
    add_filters(listing)
    show = command("show", _show, "One user's live sessions.")
    show.add_argument("uid")
    people = command("people", _people, "Find people by uid, name or alias, online or gone not too long ago.")
    people.add_argument("text", help="start of the uid, or of a word of name or alias")
    people.add_argument("--limit", type=int, default=20, help="how many, 1 to 100 (20)")
    facets = command("facets", _facets, "How many live sessions have which value, the most frequent first.")
    facets.add_argument(
        "field", help="device, app, app_version, os, browser, or an attribute that PRESENCE_FACETS names"
    )
    command("watch", _watch, "Logins and ends as they happen, one JSON object a line.")


def _counts(presence: Presence, args: argparse.Namespace) -> int:
    counts = presence.counts()
    totals = ", ".join(f"{number} {kind}" for kind, number in counts.totals.items())
    lines = [f"{counts.users} users online in {counts.sessions} sessions", f"since the start: {totals}"]
    if counts.draining:
        lines.append("Sessions that were signed out all at once are still being taken off the lists.")
    say(args, counts, lines)
    return 0


# -- sessions ---------------------------------------------------------------------------------------------------------


def _list(presence: Presence, args: argparse.Namespace) -> int:
    asked = session_filter(args)
    wanted = asked if asked.given else None
    if args.explain:
        plan = presence.explain(wanted)
        say(args, plan, [_plan(plan)])
        return 0
    if args.count:
        number = presence.count_sessions(wanted)
        say(args, {"count": number}, [str(number)])
        return 0
    page = presence.list_sessions(wanted, limit=args.limit, cursor=args.cursor)
    say(args, page, _page(page, asked, args))
    found = page.items or page.next_cursor or args.cursor
    return 0 if found or not asked.given else 1


def _page(page: Page[Session], asked: SessionFilter, args: argparse.Namespace) -> Iterator[str]:
    if page.items:
        yield from _table(page.items)
        yield f"{len(page):,} of {'' if page.total_is_exact else 'about '}{page.total:,}"
    elif page.next_cursor:
        yield "None was found so far."
    elif args.cursor:
        yield "There are no more."
    elif asked.given:
        yield "No live session matches."
        yield "Ask for less, or look among those who are offline: presence people TEXT, presence ended USER"
    else:
        yield "Nobody is online."
        yield "See logins as they happen: presence watch. Who was here: presence ended"
    if page.next_cursor and len(page) < args.limit:
        share = int(page.progress * 100)
        part = f"{share} %" if share else "less than 1 %"
        yield f"Matches are rare: {page.scanned:,} entries were looked at, {part} of the list so far."
    yield from go_on(page)


def _plan(plan: Plan) -> str:
    if plan.index == "none":
        return "No live session has such a value: there is nothing to look for."
    way = f"By {_DRIVES.get(plan.index, plan.index)}, about {plan.rows:,} of them for a page of 50"
    tests = f"and then tests {', '.join(plan.tests)}" if plan.tests else "with nothing else to test"
    return f"{way}, {tests}; about {plan.matches:,} match."


def _show(presence: Presence, args: argparse.Namespace) -> int:
    sessions = presence.sessions(args.uid)
    nobody = [
        f"{args.uid} is not online.",
        "When were they here: presence people USER. Why not now: presence ended USER",
    ]
    say(args, sessions, _table(sessions) if sessions else nobody)
    return 0 if sessions else 1


def _table(sessions: Sequence[Session]) -> Iterable[str]:
    rows = [("LOGIN (UTC)", "USER", "NAME", "DEVICE", "APP", "BROWSER", "ADDRESS", "SESSION")]
    rows += [(stamp(one.login_at), one.uid, one.name or "-", one.device or "-", one.app or "-", one.browser or "-",
              one.ip or "-", one.session_id) for one in sessions]  # fmt: skip
    return columns(rows)


# -- people and values ------------------------------------------------------------------------------------------------


def _people(presence: Presence, args: argparse.Namespace) -> int:
    found = presence.people(args.text, limit=args.limit)
    lines: list[str] = []
    if found:
        rows = [("LAST SEEN (UTC)", "USER", "NAME", "ONLINE", "ALIASES")]
        rows += [(stamp(one.last_seen), one.uid, one.name or "-",
                  number_of(one.sessions, "session") if one.online else "-", ", ".join(one.aliases) or "-")
                 for one in found]  # fmt: skip
        lines += columns(rows)
        if len(found) == args.limit:
            lines.append(f"These are the first {args.limit}: there may be more.")
    else:
        lines.append(f"Nobody was found whose uid, or a word of whose name or alias, starts with {args.text}")
        lines.append("Ask for less, or for a part of a name among those who are online: presence list --name-contains")
    missing = _NEEDED_BY_PEOPLE.difference(presence.settings.indexes)
    if missing:
        lines.append(f"Not all can be found: indexes that are not kept here: {', '.join(sorted(missing))}")
    say(args, found, lines)
    return 0 if found else 1


def _facets(presence: Presence, args: argparse.Namespace) -> int:
    values = presence.facets(args.field)
    if args.json:
        say(args, values, [])
        return 0
    counts = presence.counts()
    lines: list[str] = []
    if values:
        lines += columns([(args.field.upper(), "SESSIONS"), *((one, f"{number:,}") for one, number in values.items())])
        swept = (
            f"exact as of the last sweep, {stamp(counts.swept_at)} UTC" if counts.swept_at else "no sweep has run yet"
        )
        total = number_of(counts.sessions, "live session")
        lines.append(f"{number_of(len(values), 'value')} in {sum(values.values()):,} of {total}; {swept}")
    elif counts.sessions:
        lines.append(f"None of {number_of(counts.sessions, 'live session')} says its {args.field}.")
        if args.field in presence.settings.facets:
            lines.append("What is to be counted from now on needs: presence reindex")
    else:
        lines.append("Nobody is online.")
    say(args, values, lines)
    return 0


def _watch(presence: Presence, args: argparse.Namespace) -> int:
    for event in presence.watch():
        print(as_json(event), flush=True)
    return 0
