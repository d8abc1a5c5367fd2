"""The end of a command that changed something: it waits until a failover can no longer undo it, or says that it may."""

from __future__ import annotations

import time
from typing import Final

from presence_core.cli.shown import Growing, complain, number_of
from presence_core.client import Presence

_LOOK: Final = 0.1
"""Seconds between two looks."""


def not_confirmed(presence: Presence) -> list[str]:
    """What is said of a change that replicas do not have, as far as is known. Of a single server nothing."""
    if presence.unconfirmed():
        return ["This is not confirmed on a replica: should Redis fail over now, look, and do it again."]
    if presence.may_fail_over and not presence.settings.confirm_replicas:
        return [
            "This is not confirmed on a replica, because confirm_replicas is 0 (PRESENCE_CONFIRM_REPLICAS): a failover "
            "may undo it."
        ]
    return []


def wait_until_kept(presence: Presence) -> None:
    """Wait while something is held, at most as long as ``close`` would; Ctrl-C ends that. Says what is given up."""
    most = 2 * presence.settings.confirm_hold
    if not presence.held() or not most:
        return
    complain(f"Done. Waiting at most {most} s, so that a failover does not undo it; Ctrl-C ends the wait.")
    end = time.monotonic() + most
    try:
        with Growing() as line:
            while presence.held() and (left := end - time.monotonic()) > 0:
                line.say(f"{number_of(presence.held(), 'change')} held, {presence.unconfirmed():,} not confirmed on a "
                         f"replica, {left:.0f} s left ")  # fmt: skip
                time.sleep(_LOOK)
    finally:
        held, not_sure = presence.held(), presence.unconfirmed()
        if held:
            which = f"{not_sure:,} of them not confirmed on a replica" if not_sure else "all confirmed on a replica"
            complain(
                f"Given up: {number_of(held, 'change')}, {which}. Should Redis fail over now, look, and do it again."
            )
        presence.close(wait=0)
