"""What a search text may have been meant to be: "did you mean …"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.keyspace import Shard
from presence_core.models import text
from presence_core.operations.context import Context
from presence_core.operations.search.people import Candidate, has_needle, person_of, seen_recently
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first
from presence_core.scripts.search import FIND_SIMILAR
from presence_core.text.search_text import BEFORE, CUT, NAME_CUT, fold, raw_uid_of
from presence_core.text.similar_text import MAX_MISTAKES, Correction, correction, may_be_wrong, words_of
from presence_core.text.typed_text import read_typed

MAX_READS: Final = 2_000
"""Reads of the index in one call."""

MAX_ENTRIES: Final = 20
"""Entries that one call returns."""

MAX_PEOPLE: Final = 10
"""People whose names are read: those who are online first."""


class _Path(NamedTuple):
    """Words in an order in which entries of a kind may have them."""

    kind: str
    between: bytes
    words: tuple[str, ...]


@checked_first
def did_you_mean(ctx: Context, wanted: object, limit: object) -> Op[list[str]]:
    if wanted is None:
        raise InvalidArgument("text", "must be text of 1 to 256 bytes", "wrong_type")
    session_filter = SessionFilter(text=wanted)  # type: ignore[arg-type]  # its checks are the same
    most = check.whole("limit", limit, 1, 10)
    yield CHECKED
    meant = [meaning for meaning in read_typed(str(session_filter.text)).texts if words_of(meaning)]
    if not meant or session_filter.text_addresses:
        return []
    sought = meant[-1]  # the text without what does not count
    candidates = yield from seen_recently(ctx, (yield from _candidates(ctx, sought)))
    candidates.sort(key=lambda candidate: candidate.online, reverse=True)  # then swapped letters, as the script found
    found: list[Correction] = []
    for candidate in candidates[:MAX_PEOPLE]:
        person = yield from person_of(ctx, candidate)
        if person and not has_needle(person, session_filter.needles):
            corrected = correction(sought, person.uid, person.name, person.aliases)
            found += [corrected] if corrected else []
    found.sort(key=lambda corrected: corrected[:2])  # those who are online stay first
    texts: dict[str, str] = {}
    for corrected in found:
        texts.setdefault(fold(corrected.text), corrected.text)
    return list(texts.values())[:most]


def _candidates(ctx: Context, sought: str) -> Op[list[Candidate]]:
    """Users of whom an entry of the index of words is like the text."""
    calls = [(shard, path) for shard in ctx.keys.shards for path in _paths(sought)]
    replies = yield [
        call_of(FIND_SIMILAR, (shard.words,), path.kind, path.between, MAX_MISTAKES, MAX_ENTRIES, MAX_READS,
                *(f"{int(may_be_wrong(word))}{word}" for word in path.words))
        for shard, path in calls
    ]  # fmt: skip
    found: list[tuple[int, Shard, bytes]] = []
    for (shard, _), reply in zip(calls, replies, strict=True):
        found += [(mistakes, shard, raw_uid_of(entry)) for mistakes, entry in FIND_SIMILAR.reply(reply).entries]
    fewest = min((mistakes for mistakes, _, _ in found), default=0)
    users = {uid: shard for mistakes, shard, uid in found if mistakes == fewest}
    return [Candidate(shard, text(uid)) for uid, shard in users.items()]


def _paths(sought: str) -> Iterator[_Path]:
    words = words_of(sought)
    for kind, most in (("n", CUT if "@" in sought else NAME_CUT), ("a", CUT), ("u", CUT)):  # "n" has aliases, too
        yield _Path(kind, b"", _cut(words, most - MAX_MISTAKES))
    if len(words) == 2 and sum(map(len, words)) < NAME_CUT:  # with other words between, and in the other order
        yield from (_Path("n", BEFORE, words), _Path("n", BEFORE, words[::-1]), _Path("n", b"", words[::-1]))


def _cut(words: tuple[str, ...], most: int) -> tuple[str, ...]:
    """The words without what entries surely do not keep, in bytes."""
    kept, left = [], most
    for word in words:
        part = word.encode()[:left].decode("utf-8", "ignore")
        left -= len(part.encode())
        if part:
            kept.append(part)
    return tuple(kept)
