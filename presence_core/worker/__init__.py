"""The worker: sweeps, takes samples, and does the other maintenance that one process at a time must do.

Start reading in ``loop.py``: it leads, and calls the duties that are due. ``clock_check.py`` decides whether Redis's
clock can be trusted; ``duties.py`` has the duties that work in parts.
"""

from presence_core.worker.loop import Worker

__all__ = ["Worker"]
