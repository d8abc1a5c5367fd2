"""MessagePack, as its specification says. Extensions, such as times, are None: no session is known by them."""

from __future__ import annotations

import struct
from typing import Any, Final

from presence_core.mirror.formats.unreadable import Unreadable

_DEEPEST: Final = 64

_NUMBERS: Final = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
    0xD3: ">q",
}  # fmt: skip
_SIZES: Final = {  # kind, and the struct of the size
    0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I"),
    0xC7: ("extension", ">B"), 0xC8: ("extension", ">H"), 0xC9: ("extension", ">I"),
    0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"),
    0xDC: ("list", ">H"), 0xDD: ("list", ">I"), 0xDE: ("dict", ">H"), 0xDF: ("dict", ">I"),
}  # fmt: skip
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_FIXED_EXTENSIONS: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def read_message_pack(raw: bytes) -> Any:
    """The value. Raises Unreadable if these bytes are not one value."""
    reader = _Reader(raw)
    try:
        value = reader.value(0)
    except (struct.error, IndexError, ValueError, TypeError):
        raise Unreadable("no MessagePack") from None
    if reader.at != len(raw):
        raise Unreadable("no MessagePack")
    return value


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw, self.at = raw, 0

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise Unreadable("MessagePack nested too deep")
        first = self._raw[self.at]
        self.at += 1
        if first <= 0x7F:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first <= 0x8F:
            return self._sized("dict", first & 0x0F, depth)
        if first <= 0x9F:
            return self._sized("list", first & 0x0F, depth)
        if first <= 0xBF:
            return self._sized("text", first & 0x1F, depth)
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._unpack(_NUMBERS[first])
        if first in _FIXED_EXTENSIONS:
            return self._sized("extension", _FIXED_EXTENSIONS[first], depth)
        kind, size = _SIZES.get(first, ("", ""))
        if not kind:
            raise ValueError(first)
        return self._sized(kind, self._unpack(size), depth)

    def _unpack(self, layout: str) -> Any:
        [value] = struct.unpack_from(layout, self._raw, self.at)
        self.at += struct.calcsize(layout)
        return value

    def _sized(self, kind: str, size: int, depth: int) -> Any:
        if kind == "list":
            return [self.value(depth + 1) for _ in range(size)]
        if kind == "dict":
            return {self.value(depth + 1): self.value(depth + 1) for _ in range(size)}
        size += kind == "extension"  # its type
        part = self._raw[self.at : self.at + size]
        if len(part) != size:
            raise ValueError("cut off")
        self.at += size
        return None if kind == "extension" else part.decode() if kind == "text" else part
