"""Compare the versions of an app, as sites write them: "2.10", "v2.10.0", "2.10-beta.2", "2.10 (build 441)"."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

Part = tuple[int, int, str]
Key = tuple[tuple[int, ...], tuple[Part, ...]]

_RELEASE: Final = re.compile(r"\s*(?:v(?:ersion)?[\s.]*)?([0-9]+(?:\.[0-9]+)*)", re.IGNORECASE)
_PARTS: Final = re.compile(r"[0-9]+|[^\W\d_]+")
_NO_PRERELEASE: Final = frozenset(
    ("build", "final", "hotfix", "patch", "prod", "production", "release", "stable", "store")
)
"""Words that do not make a version an earlier one."""

_END: Final[Part] = (1, 0, "")


@lru_cache(maxsize=4096)
def version_key(version: str) -> Key | None:
    """What versions are compared by; None for one that does not begin with a number.

    The numbers before the first text are compared one by one; one that is missing is 0. Then text comes before none and
    before a number: "2.10-beta" < "2.10-rc.1" < "2.10" < "2.10 (441)". What follows a plus does not count.
    """
    release = _RELEASE.match(version)
    if release is None:
        return None
    numbers = [int(number) for number in release[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    rest = version[release.end() :].partition("+")[0].casefold()
    parts: list[Part] = [
        (1, int(part), "") if part.isdecimal() else (0, 0, part)
        for part in _PARTS.findall(rest)
        if part not in _NO_PRERELEASE
    ]
    return tuple(numbers), (*parts, _END)


def is_below(version: str | None, limit: str) -> bool:
    """Whether a version is lower than another. One that is missing or begins with no number is not."""
    ours, theirs = version_key(version or ""), version_key(limit)
    return ours is not None and theirs is not None and ours < theirs
