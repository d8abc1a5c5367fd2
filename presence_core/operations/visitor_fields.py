"""Read what describes a visitor: address, names, device, app, user agent. None of it keeps the visitor out.

What identifies a session (uid, token, session id) and what the site itself says (times, attributes) is checked by
``validation`` and refused. What browsers, proxies and users write is made to fit: too long is cut, what is no text is
left out, an address that cannot be read is no address. Aliases are keys of searches: they are left out, never cut.
``Settings(unfit="refuse")`` refuses all of it instead.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.settings import RecordAddress
from presence_core.text.addresses import network_of, parse_address
from presence_core.text.search_text import has_picture

NAME_BYTES: Final = 256
LABEL_BYTES: Final = 64
MAX_ALIASES: Final = 8
LOOK_AT: Final = 1_000
"""Aliases that are looked at: a list without an end keeps no visitor out."""

_INVISIBLE: Final = frozenset(("Cc", "Cs"))  # control characters, and halves of characters


class VisitorFields:
    """Reads each field as a record holds it.

    Args:
        refuse: raise InvalidArgument for what does not fit.
        unfit: called with the field of a value that was cut or left out.
        record: how much of an address a record has.
    """

    def __init__(
        self,
        *,
        refuse: bool = False,
        unfit: Callable[[str], object] = lambda _: None,
        record: RecordAddress = "full",
    ) -> None:
        self._refuse = refuse
        self._unfit = unfit
        self._record = record

    def recorded(self, address: bytes) -> bytes:
        """What a record has of a packed address."""
        if self._record == "full":
            return address
        return b"" if self._record == "none" else network_of(address)

    def address(self, value: object) -> bytes:
        """An address, packed; b"" for none."""
        packed = check.packed_address(value)
        if packed is None:
            address = parse_address(value) if isinstance(value, str) else None
            if address is not None:
                return address.packed
            if self._refuse:
                raise InvalidArgument("ip", "must be an IPv4 or IPv6 address")
            if value != "":  # what a framework gives for a peer without an address
                self._unfit("ip")
            return b""
        return packed

    def name(self, value: object) -> str:
        return self._text("name", value, NAME_BYTES)

    def label(self, field: str, value: object) -> str:
        """Device, app or app version."""
        return self._text(field, value, LABEL_BYTES)

    def _text(self, field: str, value: object, high: int) -> str:
        try:
            text = check.short(field, value, high) or ""  # nearly every value fits
        except InvalidArgument:
            if self._refuse:
                raise
        else:
            if text.isascii() or self._refuse or has_picture(text):
                return text
        if value == "":
            return ""
        self._unfit(field)
        text = _cut(_visible(value).strip(), high) if isinstance(value, str) else ""
        return text if has_picture(text) else ""

    def aliases(self, value: object) -> str:
        """Up to eight, one a line."""
        if self._refuse:
            return check.aliases(value)
        if value is None or value == () or value == []:
            return ""
        if isinstance(value, str):
            value = [value]
        kept: dict[str, None] = {}
        given = value if isinstance(value, Iterable) and not isinstance(value, bytes) else [value]
        for item in islice(given, LOOK_AT):
            if item is None or item == "":
                continue
            try:
                alias = check.plain_text("aliases", item, NAME_BYTES, "")
            except InvalidArgument:
                self._unfit("aliases")
                continue
            if not (alias.isascii() or has_picture(alias)):
                self._unfit("aliases")
                continue
            if len(kept) == MAX_ALIASES and alias not in kept:
                self._unfit("aliases")
                break
            kept[alias] = None
        return "\n".join(kept)

    def user_agent(self, value: object) -> str:
        """At most 512 characters. Frameworks decode headers as Latin-1: one that was sent in UTF-8 is decoded again."""
        if isinstance(value, str) and not value.isascii():
            try:
                value = value.encode("latin-1").decode()
            except UnicodeError:
                pass
        try:
            agent = check.user_agent(value)
            return agent if (agent.isascii() and not agent.isspace()) or has_picture(agent) else ""
        except InvalidArgument:
            if self._refuse:
                raise
            self._unfit("user_agent")
            return ""


def _visible(text: str) -> str:
    """Without control characters; a line break is a space."""
    return "".join(
        " " if char.isspace() else char
        for char in text
        if char.isspace() or unicodedata.category(char) not in _INVISIBLE
    )


def _cut(text: str, high: int) -> str:
    """The text, cut before the character that does not fit."""
    raw = text.encode()
    return text if len(raw) <= high else raw[:high].decode(errors="ignore").rstrip()
