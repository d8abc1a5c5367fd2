"""Sessions and how they ended: ``presence counts``, ``show``, ``sign-ins``, ``watch``, ``ended``, ``login`` and
``logout``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final, get_args

from presence_core.cli.arguments import AddCommand, add_attribute, add_page, add_period, attributes_of, parse_time
from presence_core.cli.output import count_of, print_error, print_page, print_result, records_table, to_json
from presence_core.client import Presence
from presence_core.errors import LoginRefused
from presence_core.models import EndCause, Session
from presence_core.schema.endings import in_words

SESSION_COLUMNS: Final = {
    "LOGIN (UTC)": "login_at", "USER": "uid", "NAME": "name", "DEVICE": "device", "APP": "app", "BROWSER": "browser",
    "ADDRESS": "ip", "SESSION": "session_id",
}  # fmt: skip


def session_columns(sessions: Sequence[Session]) -> dict[str, str]:
    """The columns of these sessions: with their places, if any is known."""
    places = {"PLACE": "place"} if any(session.place for session in sessions) else {}
    return SESSION_COLUMNS | places


_SIGN_IN_COLUMNS: Final = {
    "LOGIN (UTC)": "at", "PLACE": "place", "DEVICE": "device", "APP": "app", "OS": "os", "BROWSER": "browser",
}  # fmt: skip
_ENDED_COLUMNS: Final = {
    "ENDED (UTC)": "at", "USER": "uid", "REASON": "reason", "CAUSE": "cause", "BY": "by", "WHY": "note",
    "SESSION": "session_id",
}  # fmt: skip


def add_commands(add_command: AddCommand) -> None:
    add_command("counts", _counts, "Count users and sessions online, and all logins and ends.")
    show = add_command("show", _show, "List one user's live sessions.")
    show.add_argument("uid")
    sign_ins = add_command("sign-ins", _sign_ins, "List one user's latest logins, as long as keep_sign_ins keeps them.")
    sign_ins.add_argument("uid")
    add_command("watch", _watch, "Print logins and ends as they happen, as JSON lines.", json=False)
    ended = add_command("ended", _ended, "List ended sessions and why they ended, newest end first.")
    ended.add_argument("uid", nargs="?", help="only sessions of this user")
    ended.add_argument("--reason", help=f"only this end reason: {in_words()}")
    ended.add_argument("--cause", choices=get_args(EndCause), metavar="CAUSE",
                       help="only this cause: " + ", ".join(get_args(EndCause)))  # fmt: skip
    ended.add_argument("--by", help="only sessions that this staff member ended, or this identity provider")
    add_period(ended)
    add_page(ended)
    _add_login(add_command)
    logout = add_command("logout", _logout, "Log a user out of one session.", changes=True)
    logout.add_argument("uid")
    logout.add_argument("session_id")


def _add_login(add_command: AddCommand) -> None:
    login = add_command("login", _login, "Start a session. Its token is shown only this once.", changes=True)
    login.add_argument("uid")
    login.add_argument("--name", help="display name of the user")
    login.add_argument("--alias", action="append", default=[], help="an email address or phone number; can be repeated")
    for name in ("device", "app", "app-version", "ip", "user-agent"):
        login.add_argument(f"--{name}")
    add_attribute(login)
    login.add_argument("--session-id", help="your own id, never a secret; the id of a live session refreshes it")
    login.add_argument("--method", action="append", default=[], help="how they signed in: pwd, otp; can be repeated")
    login.add_argument("--device-id", help="a random id that stays on the device; only a digest is stored")
    login.add_argument("--on-behalf-by", help="who of staff logs in on behalf of the user; with --reason")
    login.add_argument("--reason", help="why, for the audit; with --on-behalf-by")
    login.add_argument("--idle-timeout", type=int, metavar="SECONDS")
    login.add_argument("--absolute-timeout", type=int, metavar="SECONDS")
    login.add_argument("--max-sessions", type=int, metavar="NUMBER", help="live sessions that the user may have")
    login.add_argument("--expires-at", type=parse_time, metavar="TIME", help="the identity provider ends it then")
    for name, words in (("issuer", "identity provider that signed the user in"), ("subject", "its name of the user"),
                        ("session", "its session")):  # fmt: skip
        login.add_argument(f"--idp-{name}", metavar="TEXT", help=words)


def _counts(presence: Presence, args: argparse.Namespace) -> int:
    counts = presence.counts()
    totals = ", ".join(
        f"{number} {kind}"
        for kind, number in {**counts.totals, **counts.odd_logins, "failed": counts.failed_logins}.items()
    )
    lines = [
        f"{count_of(counts.users, 'user')} online in {count_of(counts.sessions, 'session')}",
        f"since the start: {totals}",
    ]
    if counts.draining:
        lines.append("Revoked sessions are still being removed from the lists.")
    print_result(args, counts, lines)
    return 0


def _show(presence: Presence, args: argparse.Namespace) -> int:
    sessions = presence.sessions(args.uid)
    offline = [
        f"{args.uid} is not online.",
        "See when they were last seen: presence people USER. See why their sessions ended: presence ended USER",
    ]
    print_result(args, sessions, records_table(session_columns(sessions), sessions) if sessions else offline)
    return 0 if sessions else 1


def _sign_ins(presence: Presence, args: argparse.Namespace) -> int:
    found = presence.sign_ins(args.uid)
    none = [
        f"No login of {args.uid} is stored.",
        "The site stores logins only if PRESENCE_KEEP_SIGN_INS says for how many days.",
    ]
    print_result(args, found, records_table(_SIGN_IN_COLUMNS, found) if found else none)
    return 0 if found else 1


def _watch(presence: Presence, args: argparse.Namespace) -> int:
    for event in presence.watch():
        print(to_json(event), flush=True)
    return 0


def _ended(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.ended(args.uid, reason=args.reason, cause=args.cause, by=args.by, since=args.since,
                          until=args.until, limit=args.limit, cursor=args.cursor)  # fmt: skip
    return print_page(args, page, _ENDED_COLUMNS, "There are no records of ended sessions.",
                      args.uid, args.reason, args.cause, args.by, args.since, args.until)  # fmt: skip


def _login(presence: Presence, args: argparse.Namespace) -> int:
    claims = {"iss": args.idp_issuer, "sub": args.idp_subject, "sid": args.idp_session}
    idp = {name: value for name, value in claims.items() if value is not None} or None
    try:
        login = presence.login(args.uid, name=args.name, aliases=args.alias, device=args.device, app=args.app,
                               app_version=args.app_version, ip=args.ip, user_agent=args.user_agent,
                               attributes=attributes_of(args), session_id=args.session_id,
                               idle_timeout=args.idle_timeout, absolute_timeout=args.absolute_timeout,
                               max_sessions=args.max_sessions, methods=args.method, device_id=args.device_id,
                               on_behalf_by=args.on_behalf_by, reason=args.reason, expires_at=args.expires_at,
                               idp=idp)  # fmt: skip
    except LoginRefused as error:
        print_error(error.sentence)
        return 1
    session = login.session
    result = {"session": session, "token": login.token, "replaced": login.replaced}
    print_result(args, result, [f"session  {session.session_id}", f"token    {login.token}"])
    if login.replaced:
        print_error(f"The session limit ended {count_of(len(login.replaced), 'older session')} of {args.uid}.")
    return 0


def _logout(presence: Presence, args: argparse.Namespace) -> int:
    was_live = presence.logout(args.uid, args.session_id)
    print_result(args, {"logged_out": was_live},
                 ["Logged out." if was_live else f"{args.uid} has no such live session."])  # fmt: skip
    return 0 if was_live else 1
