"""``python -m presence_core.cli``, for where nothing is installed."""

import sys

from presence_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
