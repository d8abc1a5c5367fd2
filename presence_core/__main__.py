"""``python -m presence_core``: the ``presence`` command."""

import sys

from presence_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
