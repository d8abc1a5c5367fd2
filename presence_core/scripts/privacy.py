"""Scripts that remove one person's data, and parts of addresses; each with the decoder of its reply."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from presence_core.scripts.script import Script, as_sent

ERASE_FAILURES: Final = Script("privacy/erase_failures", repeatable=True, alone=True, reply=as_sent)
REWRITE_STREAM: Final = Script("privacy/rewrite_stream", repeatable=False, alone=True, reply=as_sent)
REWRITE_HASH: Final = Script("privacy/rewrite_hash", repeatable=True, alone=True, reply=as_sent)
TRIM_SIGN_INS: Final = Script("privacy/trim_sign_ins", repeatable=True, reply=as_sent)
TRUNCATE_ADDRESSES: Final = Script("privacy/truncate_addresses", repeatable=True, reply=as_sent)


class PersonErased(NamedTuple):
    """What one call of ERASE_PERSON removed."""

    sessions: int  #: ended sessions that were removed
    blocks: int  #: 1: a block was removed
    live: int  #: sessions that the person has begun meanwhile


ERASE_PERSON: Final = Script("privacy/erase_person", repeatable=True, alone=True, reply=PersonErased._make)


class StreamRewrite(IntEnum):
    """The reply of privacy/rewrite_stream.lua."""

    DONE = 1  #: the part is copied; after the last part, the copy has replaced the stream
    NEW_ENTRIES = 0  #: copied, but entries were added behind the copy
    RESTART = -1  #: another process was first, or the copy has expired
