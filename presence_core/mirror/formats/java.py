"""The two values that Spring Session writes by Java serialization and that we need: a text and a number."""

from __future__ import annotations

import struct
from typing import Any, Final

from presence_core.mirror.formats.unreadable import Unreadable

_HEAD: Final = b"\xac\xed\x00\x05"
_TEXT: Final = _HEAD + b"t"
_NUMBERS: Final = {
    _HEAD + b"sr\x00\x0ejava.lang.Long;\x8b\xe4\x90\xcc\x8f#\xdf\x02\x00\x01J\x00\x05valuexr\x00\x10java.lang.Number"
    b"\x86\xac\x95\x1d\x0b\x94\xe0\x8b\x02\x00\x00xp": ">q",
    _HEAD + b"sr\x00\x11java.lang.Integer\x12\xe2\xa0\xa4\xf7\x81\x878\x02\x00\x01I\x00\x05valuexr\x00\x10"
    b"java.lang.Number\x86\xac\x95\x1d\x0b\x94\xe0\x8b\x02\x00\x00xp": ">i",
}
"""What is in front of the value of a java.lang.Long and of a java.lang.Integer."""


def read_java(raw: bytes) -> Any:
    """A text or a number; a value of Spring's JSON serializer likewise. Raises Unreadable for any other object."""
    if raw.startswith(_TEXT):
        [size] = struct.unpack_from(">H", raw, len(_TEXT)) if len(raw) >= len(_TEXT) + 2 else (-1,)
        body = raw[len(_TEXT) + 2 :]
        if len(body) == size:
            return body.decode("utf-8", "replace")
    for head, layout in _NUMBERS.items():
        if raw.startswith(head) and len(raw) == len(head) + struct.calcsize(layout):
            return struct.unpack(layout, raw[len(head) :])[0]
    text = raw.decode("utf-8", "replace")
    if text.isdecimal() and len(text) < 20:
        return int(text)
    if not raw.startswith(_HEAD) and text[:1] == text[-1:] == '"':
        return text[1:-1]
    raise Unreadable("a Java object")
