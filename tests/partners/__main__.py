"""Install what the tests need from npm."""

from __future__ import annotations

import subprocess
import sys

from tests.partners.packages import install

try:
    install()
except FileNotFoundError:
    sys.exit("npm was not found: install Node 20 or newer (Debian, Ubuntu: apt install nodejs npm).")
except subprocess.CalledProcessError:
    sys.exit("npm could not install the packages of tests/partners/node.")
