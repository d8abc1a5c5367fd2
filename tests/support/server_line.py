"""The line in which a command that changes something names its server. Its tests: tests/cli/test_server_choice.py."""

from __future__ import annotations

import re


def without_server_line(text: str) -> str:
    """Standard error of a command without that line, if it has one."""
    return re.sub(r"^Using .+, namespace [a-z0-9_-]+\.\r?\n", "", text, count=1)
