"""Secrets in the environment: a variable holds the secret, or its twin with ``_FILE`` names a file that does.

Containers, systemd and Kubernetes hand out secrets as files, because the environment of a process is visible in more
places than its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from presence_core.errors import InvalidArgument

SECRETS: Final = ("PRESENCE_REDIS_URL", "PRESENCE_ALERT_URL", "PRESENCE_ALERT_SECRET", "PRESENCE_MIRROR_FROM",
                  "PRESENCE_MIRROR_KEY", "PRESENCE_SMTP_URL", "PRESENCE_NOTICE_KEY")  # fmt: skip
"""Every variable that has a twin with ``_FILE``."""

LONGEST: Final = 65_536
"""Bytes that such a file may have."""


def read_secret(environ: Mapping[str, str], name: str) -> str:
    """The secret in the variable ``name``, or in the file that ``name + "_FILE"`` names; "" if neither is set.

    Line ends at the end of the file are removed. Raises InvalidArgument if both are set, or if the file has no secret
    that can be read; the sentence never contains the secret.
    """
    twin = f"{name}_FILE"
    value, path = environ.get(name, ""), environ.get(twin, "").strip()
    if not path:
        return value
    if value.strip():
        raise InvalidArgument(twin, f"must not be set together with {name}: unset one of them", "conflicts")
    try:
        with Path(path).open("rb") as file:
            content = file.read(LONGEST + 1)
        secret = content.decode().rstrip("\r\n")
    except OSError as error:
        raise InvalidArgument(twin, f"must name a file that can be read ({error.strerror})", "unusable_file") from None
    except ValueError:  # bytes that are no text, or a NUL in the path
        raise InvalidArgument(twin, "must name a file with text in UTF-8", "unusable_file") from None
    if not secret.strip() or len(content) > LONGEST:
        raise InvalidArgument(twin, f"must name a file with 1 to {LONGEST:,} bytes of text", "unusable_file")
    return secret


def with_secret(environ: Mapping[str, str], name: str, secret: str) -> dict[str, str]:
    """A copy of the environment in which the variable ``name`` holds this secret, and its twin is not set."""
    return {variable: value for variable, value in environ.items() if variable != f"{name}_FILE"} | {name: secret}
