"""Scripts on bulk kicks; each with the decoder of its reply."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from presence_core.models import stored_number
from presence_core.scripts.script import Script, as_sent

CREATE_JOB: Final = Script("bulk_kick/create_job", repeatable=False, reply=as_sent)
CLOSE_JOB: Final = Script("bulk_kick/close_job", repeatable=True, reply=as_sent)
KICK_SESSIONS: Final = Script("bulk_kick/kick_sessions", repeatable=True, reply=as_sent)
"""Sent again, it ends and counts no session twice, and none once another runner has claimed the job. Replies with a
number for each session; 0: that epoch of the job has ended, and nothing is done."""

KICKED: Final = 1
FOREIGN: Final = -1
"""Another program's value is in the place of the user's sessions."""


class JobClaim(NamedTuple):
    """A runner's claim of a job."""

    code: int  #: the runner's epoch; 0: not claimed by this runner; -1: no such job; -2: it needs a newer process
    wait_ms: int  #: until the job may begin

    @property
    def epoch(self) -> int:
        """The runner's epoch; 0: it has no claim on the job."""
        return max(0, self.code)

    @property
    def is_unknown(self) -> bool:
        return self.code == -1

    @property
    def is_newer(self) -> bool:
        return self.code == -2


CLAIM_JOB: Final = Script("bulk_kick/claim_job", repeatable=True, reply=JobClaim._make)


class JobStateChange(NamedTuple):
    """A pause, resume or cancel."""

    code: int  #: 1: changed; 0: it had this state already; -1: not possible from this state
    state_before: bytes
    epoch: int

    @property
    def is_refused(self) -> bool:
        return self.code < 0


CHANGE_JOB_STATE: Final = Script("bulk_kick/change_job_state", repeatable=False, reply=JobStateChange._make)


class JobFence(NamedTuple):
    """A job's fence on one shard."""

    epoch: int  #: runners of an earlier epoch end no session on this shard
    kicked: int  #: sessions that the job has ended on this shard


def _decode_fence(reply: Any) -> JobFence:
    """Decode a reply of bulk_kick/raise_job_fence.lua; (0, 0) where another program's value has the job's key."""
    epoch, kicked = reply or (0, None)
    return JobFence(epoch, count(kicked))


RAISE_JOB_FENCE: Final = Script("bulk_kick/raise_job_fence", repeatable=True, reply=_decode_fence)


def count(raw: Any) -> int:
    """A number that a script of ours wrote; 0 for anything else."""
    return stored_number(raw) or 0
