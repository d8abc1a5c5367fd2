"""``manage.py presence …``: the ``presence`` command with the settings of the site."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from presence_core import cli
from presence_core.errors import Unavailable
from presence_core.web.django.config import config


class Command(BaseCommand):  # type: ignore[misc]
    """Runs the command line in this process, with PRESENCE_REDIS_URL and PRESENCE_SETTINGS of the site."""

    help = "Runs the presence command with the settings of this site, for example: manage.py presence list"
    requires_system_checks = ()  # ``presence health`` is for a site that does not work
    suppressed_base_arguments = frozenset({"--verbosity", "--traceback", "--no-color", "--force-color", "--version"})

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar="command", help="a command, and its options")

    def handle(self, *, words: list[str], **_: Any) -> None:
        try:
            before, ours = dict(os.environ), config().environ()
        except Unavailable as error:  # in a test run
            raise CommandError(str(error), returncode=2) from None
        os.environ.clear()
        os.environ.update(ours)
        try:
            code = cli.main(words or ["--help"])
        finally:
            os.environ.clear()
            os.environ.update(before)
        if code:
            sys.exit(code)
