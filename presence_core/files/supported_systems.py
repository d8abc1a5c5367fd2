"""The operating systems on which the programs run: the command, service and worker, and the dashboard.

They lock files with ``fcntl`` and know the user of a command by ``getuid``. The library needs neither.
"""

from __future__ import annotations

import sys
from typing import Final

_LINUX_AND_MACOS: Final = "Presence runs on Linux and macOS. On Windows, run it in WSL."


def why_not_here() -> str | None:
    """One sentence if the programs do not run on this system."""
    return _LINUX_AND_MACOS if sys.platform == "win32" else None
