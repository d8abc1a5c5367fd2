"""The ``presence`` command, for support staff and operators.

It connects to the Redis of ``PRESENCE_REDIS_URL``, or with ``--embedded`` to the embedded server.
``docs/lookup/cli.md`` has examples and the exit codes.
Start reading here: ``main`` runs one command; ``commands/`` has a module per domain.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final, NoReturn

import presence_core
from presence_core.cli.arguments import AddCommand, Command, LocalCommand, add_embedded
from presence_core.cli.commands import MODULES
from presence_core.cli.output import discard, print_error, to_json
from presence_core.cli.replica_wait import wait_for_replicas
from presence_core.client import Presence
from presence_core.client.server_choice import EMBEDDED, VARIABLE, server_line
from presence_core.errors import InvalidArgument, PresenceError, Unavailable
from presence_core.files.secret_files import with_secret
from presence_core.files.supported_systems import why_not_here
from presence_core.logs import fields

log = logging.getLogger(__name__)

_NO_LOG: Final = logging.NullHandler()

_EPILOG: Final = (
    "The options of a command: presence COMMAND --help. The command connects to the Redis of PRESENCE_REDIS_URL. A "
    "command that changes something says on standard error which server and namespace it used. Times are UTC."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _prepare_streams()
    if refusal := why_not_here():
        print_error(refusal)
        return 2
    _prepare_signals()
    # An outage ends a command with one sentence. The services print the log, too: they call start_logs.
    logging.getLogger("presence_core").addHandler(_NO_LOG)
    args = argparse.Namespace()
    try:
        parser = build_parser()
        if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow
            import argcomplete

            argcomplete.autocomplete(parser)  # ends the process
        parser.parse_args(argv, args)
        code = _run_or_refuse(args)
        sys.stdout.flush()
        return code
    except (_UsageError, InvalidArgument) as error:
        print_error(str(error))
        return 2
    except PresenceError as error:
        print_error(str(error))
        if isinstance(error, Unavailable) and hasattr(args, "advice_if_unavailable"):
            print_error(args.advice_if_unavailable)
        return 3
    except BrokenPipeError:  # the reader of the output has closed it, as head does
        discard(sys.stdout)
        return 0
    except OSError as error:  # the disk behind standard output is full, for example
        discard(sys.stdout)
        print_error(f"The output could not be written: {error.strerror or error}.")
        return 4
    except KeyboardInterrupt:
        return 130


def _run_or_refuse(args: argparse.Namespace) -> int:
    """Run the command. A refused argument is a sentence for people; with ``--json`` also its field and code."""
    try:
        return _run(args)
    except InvalidArgument as error:
        print_error(str(error))
        if getattr(args, "json", False):
            print(to_json({"field": error.field, "code": error.code}))
        return 2


def _run(args: argparse.Namespace) -> int:
    args.environ = with_secret(os.environ, VARIABLE, EMBEDDED) if args.embedded else dict(os.environ)
    if not args.connects:
        local: LocalCommand = args.run
        return local(args)
    run: Command = args.run
    with Presence.from_env(args.environ) as presence:
        if args.changes(args) if callable(args.changes) else args.changes:
            # After the layout was read: an error about an argument is one sentence, and an outage names the server.
            line = server_line(args.environ, presence.internal.redis_client, presence.settings)
            presence.internal.context.on_layout = cache(partial(_announce, line))
        code = run(presence, args)
        sys.stdout.flush()
        wait_for_replicas(presence)
    return code


def _announce(line: str) -> None:
    """Print which server is used. The services have a log, and log it."""
    if log.isEnabledFor(logging.INFO):
        log.info("%s", line, extra=fields(event="server"))
    else:
        print_error(line)


def _prepare_streams() -> None:
    """Make output possible where a stream is closed, and where a terminal does not support Unicode."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the parent process closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _prepare_signals() -> None:
    """Let SIGTERM, and SIGHUP of a terminal that closes, raise SystemExit: a command deletes its temporary files."""
    if threading.current_thread() is threading.main_thread():
        for number in signal.Signals:
            if number.name in ("SIGTERM", "SIGHUP") and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, lambda number, _: sys.exit(128 + number))


class _UsageError(Exception):
    """The arguments do not fit the command. Its text is one sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{self.prog}: {message} (see {self.prog} --help).")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print the help or the version. argparse would ignore an OSError."""
        print(message, end="", file=file, flush=True)


@cache
def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="presence", description="See who is online, and end sessions.", epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"presence {presence_core.__version__}")
    add_embedded(parser, default=False)
    add_command = AddCommand(parser)
    for module in MODULES:
        module.add_commands(add_command)
    return parser
