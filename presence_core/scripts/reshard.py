"""Scripts that move keys to another number of shards. READ_KEYS reads; each of the others replies 1; 0: refused, as its
header says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from presence_core.scripts.script import Script


def _is_done(reply: int) -> bool:
    """Whether a script did its work. Else the caller has lost its claim."""
    return reply == 1


CLAIM_FENCE: Final = Script("reshard/claim_fence", repeatable=True, fenced=False, reply=_is_done)
WRITE_KEYS: Final = Script("reshard/write_keys", repeatable=True, fenced=False, reply=_is_done)
REMOVE_KEYS: Final = Script("reshard/remove_keys", repeatable=True, fenced=False, reply=_is_done)
DROP_COPIED_CHANGES: Final = Script("reshard/drop_copied_changes", repeatable=True, fenced=False, reply=_is_done)
COMMIT_LAYOUT: Final = Script("reshard/commit_layout", repeatable=True, fenced=False, reply=_is_done)
FINISH_STEP: Final = Script("reshard/finish_step", repeatable=True, fenced=False, reply=_is_done)


class KeyDump(NamedTuple):
    """A key as it is copied."""

    payload: bytes | None  #: of DUMP
    expires: int  #: ms; -1: never; -2: the key is gone
    links: Sequence[bytes | None] | None = None  #: of a session's record: its fields c, en, em and q


def _decode_keys(reply: Sequence[Any]) -> list[KeyDump]:
    """Decode a reply of reshard/read_keys.lua."""
    return list(map(KeyDump, reply[::3], reply[1::3], reply[2::3]))


READ_KEYS: Final = Script("reshard/read_keys", repeatable=True, fenced=False, reply=_decode_keys)
