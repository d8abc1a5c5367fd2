"""What a site does, by hand: ``presence login`` and ``logout``."""

from __future__ import annotations

import argparse

from presence_core.cli.asked import Maker, add_attribute, attributes_of
from presence_core.cli.shown import complain, number_of, say
from presence_core.client import Presence
from presence_core.errors import LoginRefused


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    login = command("login", _login, "Begin a session. Its token is shown this once.")
    login.add_argument("uid")
    login.add_argument("--name", help="what the user is called")
    login.add_argument("--alias", action="append", default=[], help="email, phone; may be given again")
    for name in ("device", "app", "app-version", "ip", "user-agent"):
        login.add_argument(f"--{name}")
    add_attribute(login)
    login.add_argument(
        "--session-id", help="an id of the site's own, never a secret; told again it is the same session"
    )
    login.add_argument("--idle-timeout", type=int, metavar="SECONDS")
    login.add_argument("--absolute-timeout", type=int, metavar="SECONDS")
    logout = command("logout", _logout, "End a session at its user's wish.")
    logout.add_argument("uid")
    logout.add_argument("session_id")


def _login(presence: Presence, args: argparse.Namespace) -> int:
    try:
        login = presence.login(args.uid, name=args.name, aliases=args.alias, device=args.device, app=args.app,
                               app_version=args.app_version, ip=args.ip, user_agent=args.user_agent,
                               attributes=attributes_of(args), session_id=args.session_id,
                               idle_timeout=args.idle_timeout, absolute_timeout=args.absolute_timeout)  # fmt: skip
    except LoginRefused as error:
        complain(error.sentence)
        return 1
    session = login.session
    answer = {"session": session, "token": login.token, "replaced": login.replaced}
    say(args, answer, [f"session  {session.session_id}", f"token    {login.token}"])
    if login.replaced:
        complain(f"{number_of(len(login.replaced), 'older session')} of {args.uid} ended, by the limit.")
    return 0


def _logout(presence: Presence, args: argparse.Namespace) -> int:
    was = presence.logout(args.uid, args.session_id)
    say(args, {"logged_out": was}, ["Logged out." if was else f"{args.uid} has no such live session."])
    return 0 if was else 1
