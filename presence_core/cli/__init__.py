"""The ``presence`` command: what support staff and operators do from a terminal.

Finds Redis as the library does: ``PRESENCE_REDIS_URL``, else the embedded server. Exit codes: 0 done; 1 not so (nobody
was kicked, nothing was found, a login was refused, the doctor warns); 2 a wrong argument or file; 3 Redis is away or
refuses; 4 the answer could not be written; 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from presence_core.cli import dashboard, doctor, jobs, moving, privacy, sessions, site, staff, stats, team, upkeep, web
from presence_core.cli.asked import Command
from presence_core.cli.shown import complain
from presence_core.cli.waiting import wait_until_kept
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError, Unavailable


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who began us: nobody listens, which is no reason to fail either
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no Unicode is no reason to fail
    args = argparse.Namespace()
    try:
        _parser().parse_args(argv, args)
        run: Command = args.run
        if run is dashboard.start:  # opens its own, also where Redis is away
            return dashboard.start(None, args)
        with Presence.from_env() as presence:
            code = run(presence, args)
            sys.stdout.flush()
            wait_until_kept(presence)
        return code
    except (_Misuse, InvalidArgument) as error:
        complain(str(error))
        return 2
    except PresenceError as error:
        complain(str(error))
        if isinstance(error, Unavailable) and hasattr(args, "when_away"):
            complain(args.when_away)
        return 3
    except BrokenPipeError:  # the reader has seen enough
        _hush()
        return 0
    except OSError as error:  # what follows standard output is full
        _hush()
        complain(f"The answer could not be written: {error.strerror or error}.")
        return 4
    except KeyboardInterrupt:
        return 130


def _hush() -> None:
    """What is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Misuse(Exception):
    """The words of a command make no sense: the one sentence that says so."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Misuse(f"{self.prog}: {message} (see {self.prog} --help).")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="presence", description="See who is online, and end sessions.")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: Command, help: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help)
        made.set_defaults(run=run)
        if name not in ("worker", "watch", "dashboard"):
            made.add_argument("--json", action="store_true", help="answer in JSON")
        return made

    for room in (sessions, stats, site, staff, privacy, team, jobs, moving, upkeep, doctor, web, dashboard):
        room.add_commands(command)
    return parser
