"""Shell completion: ``presence completion``."""

from __future__ import annotations

import argparse
from typing import Final

from presence_core.cli.arguments import AddCommand

SHELLS: Final = ("bash", "zsh", "fish")


def add_commands(add_command: AddCommand) -> None:
    help = "Print the code that makes a shell complete this command."
    parser = add_command("completion", _completion, help, json=False, connects=False)
    parser.add_argument("shell", choices=SHELLS)


def _completion(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["presence"], shell=args.shell), end="")
    return 0
