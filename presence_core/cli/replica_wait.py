"""After a change: wait until a failover can no longer undo it, or say that it could."""

from __future__ import annotations

import time
from typing import Final

from presence_core.cli.output import ProgressLine, count_of, print_error
from presence_core.client import Presence

_INTERVAL: Final = 0.1
"""Seconds between two checks."""

_REPEAT: Final = "If Redis fails over now, check the result and repeat the command."


def unconfirmed_warning(presence: Presence) -> list[str]:
    """A warning if no replica is known to have this change. Empty for a single server."""
    if presence.unconfirmed():
        return [f"No replica has confirmed this change. {_REPEAT}"]
    if presence.may_fail_over and not presence.settings.confirm_replicas:
        return [
            "No replica has confirmed this change, because confirm_replicas is 0 (PRESENCE_CONFIRM_REPLICAS): "
            "a failover may undo it."
        ]
    return []


def wait_for_replicas(presence: Presence) -> None:
    """Wait while the client holds changes, at most as long as ``close`` would. Ctrl-C ends the wait.

    Prints how many changes are still held at the end, and closes the client without waiting again.
    """
    limit = 2 * presence.settings.confirm_hold
    if not presence.held() or not limit:
        return
    print_error(f"Done. Waiting up to {limit} s so that a failover cannot undo it. Ctrl-C ends the wait.")
    try:
        _wait(presence, time.monotonic() + limit)
    finally:
        if held := presence.held():
            unconfirmed = presence.unconfirmed()
            state = f"{unconfirmed:,} of them not confirmed" if unconfirmed else "all confirmed"
            print_error(f"Stopped waiting for {count_of(held, 'change')}, {state} by a replica. {_REPEAT}")
        presence.close(wait=0)


def _wait(presence: Presence, end: float) -> None:
    with ProgressLine() as line:
        while presence.held() and (left := end - time.monotonic()) > 0:
            line.show(
                f"{count_of(presence.held(), 'change')} held, {presence.unconfirmed():,} not confirmed by a replica, "
                f"{left:.0f} s left "
            )
            time.sleep(_INTERVAL)
