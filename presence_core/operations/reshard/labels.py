"""Labels during a copy: texts that many sessions share are copied where a session names them.

Where two old shards gave one id to two texts, the record in the new shard holds its own text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from presence_core.keyspace import Keyspace, Shard
from presence_core.models import INLINE
from presence_core.models.sessions import label_ids
from presence_core.scripts.calls import Op, command, pairs

Write = list[Any]
"""The words of a command whose second word is its only key."""

_PLACES: Final = ((32, b"C"), (36, b"A"))
"""Of a label in the core, and the field of the record that holds the text instead."""


class LabelCopier:
    """The texts of labels that have been read from the old shards, and those that the new shards have."""

    def __init__(self, old: Keyspace, new: Keyspace) -> None:
        self._new = new
        self._old_texts: dict[Shard, dict[bytes, bytes]] = {shard: {} for shard in old.shards}
        self._new_texts: dict[Shard, dict[bytes, bytes]] = {shard: {} for shard in new.shards}

    def resume(self) -> Op[None]:
        """Read the labels that an earlier coordinator has copied."""
        replies = yield [command(s.labels, "HGETALL", s.labels) for s in self._new.shards]
        self._new_texts = {shard: dict(pairs(flat)) for shard, flat in zip(self._new.shards, replies, strict=True)}

    def read(self, cores: Iterable[tuple[Shard, bytes | None]]) -> Op[None]:
        """Read the texts that these records name and no record before."""
        unknown: dict[Shard, set[bytes]] = {}
        for shard, core in cores:
            for label in label_ids(core).difference(self._old_texts[shard]):
                unknown.setdefault(shard, set()).add(label)
        if not unknown:
            return
        replies = yield [command(s.labels, "HMGET", s.labels, *labels) for s, labels in unknown.items()]
        for (shard, labels), texts in zip(unknown.items(), replies, strict=True):
            known = {label: value for label, value in zip(labels, texts, strict=True) if value is not None}
            self._old_texts[shard] |= known

    def writes(self, old: Shard, new: Shard, record: bytes, core: bytes) -> tuple[list[Write], list[Write]]:
        """The writes to the label table of the new shard; and the write to the record where it holds its own text."""
        shared: list[Write] = []
        own: list[bytes] = []
        for at, field in _PLACES:
            label = core[at : at + 4]
            value = self._old_texts[old].get(label) if label in label_ids(core) else None
            if value is None:
                continue
            if label not in self._new_texts[new]:
                self._new_texts[new][label] = value
                shared.append(["HSET", new.labels, label, value])
            elif self._new_texts[new][label] != value:
                core = core[:at] + INLINE + core[at + 4 :]
                own += (field, value)
        return shared, [["HSET", record, "c", core, *own]] if own else []
