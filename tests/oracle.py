"""What a filter finds, said once more from the words of the design alone, as plainly as Python can.

Nothing here is taken from ``presence_core.filters``: where the two differ, one of them is wrong.
"""

from __future__ import annotations

import ipaddress
import unicodedata
from typing import Any

from presence_core import Session


def folded(text: str) -> str:
    """NFKD, marks dropped, case folded, white space single."""
    letters = [letter for letter in unicodedata.normalize("NFKD", text) if unicodedata.combining(letter) == 0]
    return " ".join("".join(letters).casefold().split())


def some_word_starts_with(text: str, start: str) -> bool:
    """Some word of the first eight, with what follows it."""
    words = folded(text).split(" ")
    return any(" ".join(words[place:]).startswith(folded(start)) for place in range(min(8, len(words))))


def lies_in(ip: str | None, written: str) -> bool:
    """An address, or a block in CIDR notation. An IPv4 address in IPv6 dress is the IPv4 address."""
    try:
        block = ipaddress.ip_network(written, strict=False)
    except ValueError:
        return False
    if ip is None:
        return False
    address = ipaddress.ip_address(ip)
    if block.version == 6 and address.version == 4:
        dressed = ipaddress.IPv6Network("::ffff:0:0/96")
        assert isinstance(block, ipaddress.IPv6Network)
        return block.subnet_of(dressed) and ipaddress.ip_address(f"::ffff:{ip}") in block
    return address.version == block.version and address in block


def has_octets(ip: str | None, written: str) -> bool:
    """Whole octets and a dot."""
    return ip is not None and ":" not in ip and written[-1:] == "." and written != "." and ip.startswith(written)


def same(ours: Any, wanted: Any) -> bool:
    """Equal, as JSON is: true is not 1, a tuple is a list."""
    if isinstance(wanted, list | tuple):
        return isinstance(ours, list) and len(ours) == len(wanted) and all(map(same, ours, wanted))
    if isinstance(wanted, dict):
        return isinstance(ours, dict) and ours.keys() == wanted.keys() and all(same(ours[k], wanted[k]) for k in wanted)
    return isinstance(ours, bool) == isinstance(wanted, bool) and bool(ours == wanted)


def found_by(one: Session, now_ms: int, asked: dict[str, Any]) -> bool:
    """Whether a session is one of those that ``SessionFilter(**asked)`` asks for. Times are Unix seconds."""

    def holds(field: str, value: Any) -> bool:
        name = one.name or ""
        if field == "text":
            return (
                folded(one.uid).startswith(folded(value))
                or any(some_word_starts_with(text, value) for text in (name, *one.aliases))
                or lies_in(one.ip, value.strip())
                or has_octets(one.ip, value.strip())
            )
        if field == "name_prefix":
            return some_word_starts_with(name, value)
        if field == "name_contains":
            return folded(value) in folded(name)
        if field == "ip":
            return lies_in(one.ip, value)
        if field == "logged_in_after":
            return bool(round(one.login_at.timestamp() * 1000) >= round(value * 1000))
        if field == "logged_in_before":
            return bool(round(one.login_at.timestamp() * 1000) < round(value * 1000))
        if field == "idle_for":
            return bool(now_ms - round(one.last_seen.timestamp() * 1000) >= value * 1000)
        if field == "attributes":
            return all(key in one.attributes and same(one.attributes[key], wanted) for key, wanted in value.items())
        return bool(getattr(one, field) == value)

    return all(holds(field, value) for field, value in asked.items())
