"""Find sessions, people and values: ``presence list``, ``people`` and ``facets``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final, get_args

from presence_core.cli.arguments import AddCommand, add_filters, add_page, session_filter
from presence_core.cli.commands.sessions import session_columns
from presence_core.cli.output import count_of, format_time, next_page, print_result, records_table, table
from presence_core.client import Presence
from presence_core.filters import SessionFilter
from presence_core.models import Counts, ListOrder, Page, Person, Plan, Session
from presence_core.schema.conditions import FACETS

_READS: Final = {
    "uid": "sessions of the user",
    "text": "entries of the word and address indexes",
    "name": "entries of the name index",
    "ip": "entries of the address index",
    "idp": "entries of the index of identity providers",
    "login": "sessions between two login times, newest first",
    "list": "sessions of the list, newest first",
    "last_seen": "users, last seen first",
}
"""What a plan reads, by ``Plan.index``."""

_PEOPLE_INDEXES: Final = {"uid", "name", "alias"}


def add_commands(add_command: AddCommand) -> None:
    listing = add_command("list", _list, "List live sessions, newest login first, or last seen first.")
    help = "login: newest login first (the default); last_seen: last seen first"
    listing.add_argument("--order", choices=get_args(ListOrder), default="login", help=help)
    instead = listing.add_mutually_exclusive_group()
    add_page(listing, cursor=instead)
    instead.add_argument("--count", action="store_true", help="print only the exact number of sessions")
    instead.add_argument("--explain", action="store_true", help="print only how the search would run")
    add_filters(listing)
    people = add_command("people", _people, "Find people who are online or were recently.")
    people.add_argument("text", help="uid, name, email, email domain or phone number, or the start of it")
    people.add_argument("--limit", type=int, default=20, help="how many, 1 to 100 (default 20)")
    facets = add_command("facets", _facets, "Count live sessions per value of a field, most frequent first.")
    facets.add_argument("field", help=f"{', '.join(FACETS)}, or an attribute of PRESENCE_FACETS")


def _list(presence: Presence, args: argparse.Namespace) -> int:
    filter = session_filter(args)
    wanted = filter if filter.given else None
    if args.explain:
        plan = presence.explain(wanted, order=args.order)
        print_result(args, plan, [_plan_sentence(plan)])
        return 0
    if args.count:
        number = presence.count_sessions(wanted)
        print_result(args, {"count": number}, [str(number)])
        return 0
    page = presence.list_sessions(wanted, order=args.order, limit=args.limit, cursor=args.cursor)
    print_result(args, page, _page_lines(page, filter, args))
    found = page.items or page.next_cursor or args.cursor
    return 0 if found or not filter.given else 1


def _page_lines(page: Page[Session], filter: SessionFilter, args: argparse.Namespace) -> Iterator[str]:
    if page.items:
        yield from records_table(session_columns(page.items), page)
        yield f"{len(page):,} of {'' if page.total_is_exact else 'about '}{page.total:,}"
    else:
        yield from _empty_page(page, filter, args)
    if page.next_cursor and len(page) < args.limit:
        percent = int(page.progress * 100)
        searched = f"{percent} %" if percent else "less than 1 %"
        yield f"Matches are rare: {page.scanned:,} entries read, {searched} of the list so far."
    yield from next_page(page)


def _empty_page(page: Page[Session], filter: SessionFilter, args: argparse.Namespace) -> Iterator[str]:
    if page.next_cursor:
        yield "No match so far."
    elif args.cursor:
        yield "There are no more sessions."
    elif filter.given:
        yield "No live session matches."
        yield "Use fewer filters, or search people who are offline: presence people TEXT, presence ended USER"
    else:
        yield "No one is online."
        yield "See logins as they happen: presence watch. See ended sessions: presence ended"


def _plan_sentence(plan: Plan) -> str:
    if plan.index == "none":
        return "No live session has this value, so nothing is searched."
    source = _READS.get(plan.index, plan.index)
    tests = f"then tests {', '.join(plan.tests)}" if plan.tests else "with no further test"
    wait = f" Incomplete until presence reindex has run: {', '.join(plan.incomplete)}." if plan.incomplete else ""
    return f"Reads about {plan.rows:,} {source}, for a page of 50, {tests}. About {plan.matches:,} match.{wait}"


def _people(presence: Presence, args: argparse.Namespace) -> int:
    people = presence.people(args.text, limit=args.limit)
    if people:
        lines = _people_lines(people, args.limit)
    else:
        lines = [
            f"No uid, name or alias matches {args.text}",
            "Type fewer letters, or search for a part of a name among those online: presence list --name-contains",
        ]
    if missing := _PEOPLE_INDEXES.difference(presence.settings.indexes):
        lines.append(f"Some people cannot be found, because these indexes are off: {', '.join(sorted(missing))}")
    print_result(args, people, lines)
    return 0 if people else 1


def _people_lines(people: list[Person], limit: int) -> list[str]:
    rows = [("LAST SEEN (UTC)", "USER", "NAME", "ONLINE", "ALIASES")]
    rows += [
        (format_time(person.last_seen), person.uid, person.name or "-",
         count_of(person.sessions, "session") if person.online else "-", ", ".join(person.aliases) or "-")
        for person in people
    ]  # fmt: skip
    lines = list(table(rows))
    if len(people) == limit:
        lines.append(f"These are the first {limit}; there may be more.")
    return lines


def _facets(presence: Presence, args: argparse.Namespace) -> int:
    values = presence.facets(args.field)
    if args.json:
        print_result(args, values, [])
        return 0
    counts = presence.counts()
    if values:
        lines = _facet_lines(args.field, values, counts)
    elif counts.sessions:
        lines = [f"None of {count_of(counts.sessions, 'live session')} has a value for {args.field}."]
        if args.field in presence.settings.facets:
            lines.append("If PRESENCE_FACETS is new, count what is there already: presence reindex")
    else:
        lines = ["No one is online."]
    print_result(args, values, lines)
    return 0


def _facet_lines(field: str, values: dict[str, int], counts: Counts) -> list[str]:
    rows = [(field.upper(), "SESSIONS"), *((value, f"{number:,}") for value, number in values.items())]
    total = f"{count_of(counts.sessions, 'live session')}, counted at {format_time(counts.as_of)} UTC"
    draining = "; it may still count sessions that were revoked" if counts.draining else ""
    return [*table(rows), f"{count_of(len(values), 'value')} in {sum(values.values()):,} of {total}{draining}"]
