"""Scripts that move keys to another number of shards. Each replies 1; 0: refused, as its header says."""

from __future__ import annotations

from typing import Final

from presence_core.scripts.script import Script

CLAIM_FENCE: Final = Script("reshard/claim_fence", safe=True, fenced=False)
WRITE_KEYS: Final = Script("reshard/write_keys", safe=True, fenced=False)
REMOVE_KEYS: Final = Script("reshard/remove_keys", safe=True, fenced=False)
DROP_COPIED_CHANGES: Final = Script("reshard/drop_copied_changes", safe=True, fenced=False)
COMMIT_LAYOUT: Final = Script("reshard/commit_layout", safe=True, fenced=False)
FINISH_STEP: Final = Script("reshard/finish_step", safe=True, fenced=False)


def is_done(reply: int) -> bool:
    """Decode a reply of any of them: whether it did its work. Else the caller has lost its claim."""
    return reply == 1
