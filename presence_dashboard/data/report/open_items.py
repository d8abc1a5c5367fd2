"""What a shift leaves to the next one: blocks that end in it, bulk kicks under way, remarks on people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from presence_core import Block, Job, Presence, Remark

NEXT_SHIFT: Final = timedelta(hours=8)

MAX_BLOCK_PAGES: Final = 10
"""Pages of 1,000 blocks that are read."""

MAX_REMARKS: Final = 50
"""The newest."""

UNDER_WAY: Final = ("running", "paused")


@dataclass(frozen=True, slots=True)
class OpenItems:
    """As of one time."""

    blocks: tuple[Block, ...]  #: those that end first come first
    blocks_are_all: bool
    jobs: tuple[Job, ...]
    remarks: tuple[Remark, ...]  #: newest first
    names: Mapping[str, str] = field(default_factory=dict)  #: of the people in them, as far as known


def read_open_items(presence: Presence, now: datetime) -> OpenItems:
    """Raises PresenceError."""
    blocks: list[Block] = []
    are_all = False
    cursor = None
    for _ in range(MAX_BLOCK_PAGES):
        page = presence.blocks(limit=1000, cursor=cursor)
        blocks += [block for block in page if block.until is not None and block.until < now + NEXT_SHIFT]
        cursor = page.next_cursor
        if cursor is None:
            are_all = True
            break
    blocks.sort(key=lambda block: block.until or now)
    jobs = tuple(job for job in presence.jobs(limit=100) if job.state in UNDER_WAY)
    remarks = tuple(presence.remarks(limit=MAX_REMARKS))
    named = list(dict.fromkeys(_uids(blocks, remarks)))[:1000]
    return OpenItems(tuple(blocks), are_all, jobs, remarks, presence.names_of(named))


def _uids(blocks: list[Block], remarks: tuple[Remark, ...]) -> Iterator[str]:
    yield from (remark.uid for remark in remarks)
    yield from (block.uid for block in blocks)
