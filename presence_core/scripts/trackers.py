"""Scripts of the two trackers; each with the decoder of its reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from presence_core.scripts.calls import scored
from presence_core.scripts.script import Script


def _decode_number(reply: Any) -> int:
    """Decode a reply that is one number: of the scripts that touch or trim, and of READ_LAST_SEEN where it counts. Its
    pages are read by ``decode_last_seen``."""
    return int(reply)


TOUCH_LAST_SEEN: Final = Script(
    "trackers/touch_last_seen", repeatable=True, fenced=False, shares=True, reply=_decode_number
)
TRIM_LAST_SEEN: Final = Script("trackers/trim_last_seen", repeatable=True, fenced=False, reply=_decode_number)
READ_LAST_SEEN: Final = Script("trackers/read_last_seen", repeatable=True, fenced=False, reply=_decode_number)
TOUCH_BUCKET: Final = Script("trackers/touch_bucket", repeatable=True, fenced=False, shares=True, reply=_decode_number)


def _decode_friends(reply: Sequence[bytes]) -> dict[bytes, float]:
    """Decode a reply of trackers/read_friends_last_seen.lua: when each friend was last seen."""
    return dict(scored(reply))


READ_FRIENDS_LAST_SEEN: Final = Script(
    "trackers/read_friends_last_seen", repeatable=True, fenced=False, reply=_decode_friends
)


class BucketsReply(NamedTuple):
    """What the latest buckets hold."""

    present: int  #: the number of the present bucket
    answer: Any = None  #: a number, or members by bucket; None where the keys did not hold the present bucket


def _decode_buckets(reply: Sequence[Any]) -> BucketsReply:
    """Decode a reply of trackers/read_buckets.lua."""
    return BucketsReply(*reply)


READ_BUCKETS: Final = Script("trackers/read_buckets", repeatable=True, fenced=False, reply=_decode_buckets)
