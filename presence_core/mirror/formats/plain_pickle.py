"""Pickles, read without unpickling: only opcodes that make plain values. One that names a class is refused."""

from __future__ import annotations

import pickletools
from typing import Any, Final

from presence_core.mirror.formats.unreadable import Unreadable

_MARK: Final = object()

_VALUES: Final = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8",
))  # fmt: skip
"""Opcodes whose argument is the value."""

_CONSTANTS: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_PUTS: Final = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GETS: Final = frozenset(("GET", "BINGET", "LONG_BINGET"))
_EMPTY: Final = {"EMPTY_LIST": list, "EMPTY_TUPLE": list, "EMPTY_DICT": dict}
_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_pickle(raw: bytes) -> Any:
    """The value of a pickle of plain values. Tuples are lists. Raises Unreadable for any other pickle."""
    try:
        return _read(raw)
    except Unreadable:
        raise
    except Exception:  # genops raises what its readers raise; the data are anyone's
        raise Unreadable("no pickle of plain values") from None


def _read(raw: bytes) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    argument: Any
    for opcode, argument, _ in pickletools.genops(raw):
        name = opcode.name
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in _PUTS:
            memo[argument] = stack[-1]
        elif name in _GETS:
            stack.append(memo[argument])
        elif name in _TUPLES:
            size = _TUPLES[name]
            stack[-size:] = [stack[-size:]]
        elif name == "STOP":
            return stack[-1]
        elif name not in ("PROTO", "FRAME"):
            _collect(name, stack)
    raise Unreadable("no end of the pickle")


def _collect(name: str, stack: list[Any]) -> None:
    """Opcodes that take several values from the stack."""
    if name in ("APPEND", "SETITEM"):
        size = 1 if name == "APPEND" else 2
        items = stack[-size:]
        del stack[-size:]
    elif name in ("APPENDS", "SETITEMS", "LIST", "TUPLE", "DICT"):
        items = _down_to_mark(stack)
    else:
        raise Unreadable(f"a pickle of objects ({name})")
    if name in ("LIST", "TUPLE"):
        stack.append(items)
    elif name in ("APPEND", "APPENDS"):
        _top(stack, list).extend(items)
    else:
        if name == "DICT":
            stack.append({})
        _top(stack, dict).update(zip(items[::2], items[1::2], strict=True))


def _down_to_mark(stack: list[Any]) -> list[Any]:
    at = len(stack) - 1
    while stack[at] is not _MARK:
        at -= 1
        if at < 0:
            raise Unreadable("no mark")
    items = stack[at + 1 :]
    del stack[at:]
    return items


def _top(stack: list[Any], kind: type) -> Any:
    if type(stack[-1]) is not kind:
        raise Unreadable("another type")
    return stack[-1]
