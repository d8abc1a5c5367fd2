"""Texts that a search text almost is: in each word one letter is wrong, missing or additional, or two are swapped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from presence_core.text.search_text import compact, spellings, starts_of, starts_of_uid

MAX_WORDS: Final = 5
"""Words of a search text for which others are looked for."""

MAX_MISTAKES: Final = 2
"""In all: with more, too many names are alike."""

_SHORTEST: Final = 3
"""Letters of a word that may have a mistake; of one beyond ASCII, such as a name in kanji, one less."""


def words_of(text: str) -> tuple[str, ...]:
    """The words of a search text as the index has them, in each the parts between separators; empty if no other text
    is looked for: of too many words, or of numbers alone."""
    parts = "".join(char if compact(char) else " " for char in spellings(text)[0]).split()
    return tuple(parts) if len(parts) <= MAX_WORDS and any(map(may_be_wrong, parts)) else ()


def may_be_wrong(word: str) -> bool:
    """Whether a word may have a mistake. Of a number, nearly every other one exists."""
    return len(word) >= _SHORTEST - (not word.isascii()) and not any(char.isdigit() for char in word)


class Correction(NamedTuple):
    """What a search text may have been meant to be."""

    mistakes: int
    rank: int  #: of several with as many: 0 the letters in another order, 1 other letters, 2 the text goes on
    text: str


def correction(text: str, uid: str, name: str | None, aliases: tuple[str, ...]) -> Correction | None:
    """How a person may be meant: words of the name in the order of the text, or the whole name, alias or user id; None
    if the text is none of these with up to MAX_MISTAKES mistakes."""
    words = words_of(text)
    most = min(MAX_MISTAKES, sum(map(may_be_wrong, words)))
    found = [*_by_words(words, name, most)] if name else []
    typed = "".join(words)
    found += [
        _whole(typed, value, [start for part in spellings(value) for start in starts_of(part)], most)
        for value in (*([name] if name else []), *aliases)
    ]
    found.append(_whole(typed, uid, [start for part in spellings(uid) for start in starts_of_uid(part)], most))
    return min((item for item in found if 0 < item.mistakes <= most), key=lambda item: item[:2], default=None)


def _by_words(words: tuple[str, ...], name: str, most: int) -> Iterator[Correction]:
    """Each word as one of the name."""
    left = [(word, compact(spelling)) for word in name.split() for spelling in spellings(word)]
    mistakes, rank, chosen = 0, 0, []
    for typed in words:
        limit = 1 if may_be_wrong(typed) else 0
        fits = [(*_distance(typed, spelling, limit), place) for place, (_, spelling) in enumerate(left)]
        distance, own_rank, place = min(fits, default=(most + 1, 0, 0))
        if distance > limit:
            return
        mistakes, rank = mistakes + distance, max(rank, own_rank)
        word = left[place][0]
        chosen.append(word)
        left = [item for item in left if item[0] != word]
    if mistakes <= most:
        yield Correction(mistakes, rank, " ".join(chosen))


def _whole(typed: str, value: str, places: list[str], most: int) -> Correction:
    return Correction(*min((_distance(typed, place, most) for place in places), default=(most + 1, 0)), value)


def _distance(typed: str, text: str, most: int) -> tuple[int, int]:
    """The fewest mistakes after which ``text`` begins with ``typed``, more than ``most`` as ``most + 1``; and the rank.

    A mistake: a letter is wrong, missing or additional, or two next to each other are swapped.
    """
    row = list(range(len(text[: len(typed) + most]) + 1))
    before: list[int] = []
    for i, letter in enumerate(typed, 1):
        before, last, row = row, before, [i]
        for j, other in enumerate(text[: len(typed) + most], 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == text[j - 2] and typed[i - 2] == other:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    fewest = min(row)
    goes_on = len(text) > len(typed) + most or row[-1] > fewest
    return min(most + 1, fewest), 2 if goes_on else int(sorted(typed) != sorted(text))
