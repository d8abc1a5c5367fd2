"""Scripts on notices to users about logins; each with the decoder of its reply."""

from __future__ import annotations

from typing import Final, NamedTuple

from presence_core.scripts.script import Script, as_sent

LIMITED, FULL, TOO_OLD = -1, -2, -3
"""Refusals of notices/queue_notice.lua."""

QUEUE_NOTICE: Final = Script("notices/queue_notice", repeatable=True, reply=as_sent)


class ClaimReply(NamedTuple):
    """A notice that this sender, and no other, may send."""

    id: bytes  #: empty: none is due
    stored: bytes  #: as JSON
    dropped: int  #: how many of the user had waited for too long
    unsure: int  #: of how many the sender has not said whether it sent them
    waiting: int  #: how many of the user wait


CLAIM_NOTICE: Final = Script("notices/claim_notice", repeatable=False, reply=ClaimReply._make)
FINISH_NOTICE: Final = Script("notices/finish_notice", repeatable=False, reply=as_sent)
ANSWER_NOTICE: Final = Script("notices/answer_notice", repeatable=False, reply=as_sent)
