"""``python -m presence_dashboard OPTIONS…``: check the settings, then serve the dashboard; the options are Streamlit's.

Streamlit reads the app only when it listens already. So a wrong setting would be reported below an address that works.
"""

from __future__ import annotations

import os
import sys

from presence_core import InvalidArgument
from presence_core.cli.commands.programs.dashboard import find_app
from presence_core.files.supported_systems import why_not_here
from presence_dashboard.gate_settings import check_settings


def main() -> None:
    if refusal := why_not_here():
        print(refusal, file=sys.stderr)
        sys.exit(2)
    try:
        if check_settings(os.environ).mode == "oidc":
            from presence_dashboard.gate import check_oidc

            check_oidc()
    except InvalidArgument as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    from streamlit.web import cli

    cli.main(["run", str(find_app()), *sys.argv[1:]], prog_name="streamlit")


if __name__ == "__main__":
    main()
