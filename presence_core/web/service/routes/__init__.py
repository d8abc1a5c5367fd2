"""The routes of the service: one module for each kind of caller."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, unquote_to_bytes

from fastapi import Depends, Request
from starlette.convertors import Convertor, register_url_convertor

from presence_core.client import AsyncPresence


async def _presence(request: Request) -> AsyncPresence:
    presence: AsyncPresence = request.app.state.presence
    return presence


Client = Annotated[AsyncPresence, Depends(_presence)]
"""The app's client."""


class Quoted(Convertor[str]):
    """A segment of the path that may hold any text, also slashes, if it is percent-encoded."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Decode it. Bytes that are not UTF-8 become lone surrogates, which all checks of texts refuse."""
        return unquote_to_bytes(value).decode("utf-8", "surrogateescape")

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


register_url_convertor("quoted", Quoted())
