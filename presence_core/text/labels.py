"""Labels of a session record: texts that many sessions have, such as user agents. The record has their id."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from presence_core.text.user_agents import families

NO_LABEL: Final = b"\0\0\0\0"


@lru_cache(maxsize=8192)
def label(text: str) -> tuple[bytes, bytes]:
    """An id and the text. Two texts with one id cost memory, and nothing else: see include/login/labels.lua."""
    raw = text.encode()
    return (blake2b(raw, digest_size=4).digest() if raw else NO_LABEL), raw


@lru_cache(maxsize=8192)
def agent_label(user_agent: str, is_recorded: bool) -> tuple[bytes, bytes]:
    """The label of a user agent: os, browser, and itself if it is recorded, one a line."""
    os, browser = families(user_agent)
    text = f"{os}\n{browser}\n{user_agent if is_recorded else ''}"
    return label(text if text != "\n\n" else "")
