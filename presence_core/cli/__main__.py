"""``python -m presence_core.cli``: the ``presence`` command without an installed package."""

import sys

from presence_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
