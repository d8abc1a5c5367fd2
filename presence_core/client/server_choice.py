"""Which server the environment names, for ``from_env``, the commands and Django.

A private server starts only for a program that asks for it. Otherwise a kick in a shell without the variable would
succeed on an empty server, and the real session would go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from presence_core.errors import InvalidArgument
from presence_core.files.secret_files import read_secret
from presence_core.operations import layout
from presence_core.settings import Settings
from presence_core.transport import SyncTransport, closers, connect, server_name, with_files

VARIABLE: Final = "PRESENCE_REDIS_URL"
FALLBACK: Final = "REDIS_URL"

EMBEDDED: Final = "embedded"
"""The value of the variable that asks for the embedded server."""


def choose_server(environ: Mapping[str, str], settings: Settings) -> str:
    """The URL of the server that the environment names, or ``EMBEDDED``.

    ``REDIS_URL`` is often the cache of another program. It counts only if PRESENCE_REDIS_URL is not set and the server
    has the layout of our namespace; to know this takes a round trip, which writes nothing.

    Raises InvalidArgument if no server is named, and Unavailable if the one of ``REDIS_URL`` cannot be asked.
    """
    url = read_secret(environ, VARIABLE).strip()
    if url == EMBEDDED:
        return EMBEDDED
    if url:
        return with_files(url, environ)
    url = environ.get(FALLBACK, "").strip()
    if not url:
        raise InvalidArgument(
            VARIABLE, 'must be set: to the URL of your Redis, or to "embedded" for a private server on this machine'
        )
    try:
        url = with_files(url, environ)
        has_layout = _has_layout(url, settings)
    except InvalidArgument as error:
        field = FALLBACK if error.field == "url" else error.field
        raise InvalidArgument(field, error.rule, error.code) from None
    if not has_layout:
        raise InvalidArgument(
            VARIABLE,
            f"must be set: the server of {FALLBACK} has no namespace {settings.namespace}, so it may be for another "
            "program",
        )
    return url


def server_line(environ: Mapping[str, str], redis_client: object, settings: Settings) -> str:
    """A sentence for the terminal: which server and namespace a program uses. Without credentials."""
    kind = "the embedded server, " if read_secret(environ, VARIABLE).strip() == EMBEDDED else ""
    return f"Using {kind}{server_name(redis_client)}, namespace {settings.namespace}."


def _has_layout(url: str, settings: Settings) -> bool:
    client = connect(url, settings.timeout, use_asyncio=False)
    transport = SyncTransport(client, settings.timeout)
    try:
        return transport.run(layout.is_stored(settings.namespace))
    finally:
        transport.close()
        for close in closers(client):
            close()
