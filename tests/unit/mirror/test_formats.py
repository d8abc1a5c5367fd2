"""Values of sessions are read into plain values, and nothing in them is ever run."""

from __future__ import annotations

import os
import pickle
import random
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presence_core.mirror.formats import FORMATS, Unreadable
from presence_core.mirror.formats.java import read_java
from presence_core.mirror.formats.message_pack import read_message_pack
from presence_core.mirror.formats.plain_pickle import read_pickle

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(plain, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_a_pickle_of_plain_values_is_read_as_pickle_reads_it(value: Any, protocol: int) -> None:
    written = pickle.dumps(value, protocol)
    if protocol < 3 and (b"_codecs" in written or b"__builtin__" in written):  # they call a function for bytes
        with pytest.raises(Unreadable):
            read_pickle(written)
    else:
        assert read_pickle(written) == value


@given(plain)
def test_messagepack_is_read_as_msgspec_writes_it(value: Any) -> None:
    assert read_message_pack(msgspec.msgpack.encode(value)) == value


class Runs:
    """Unpickling it would write a file."""

    def __init__(self, canary: str) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.canary}",)


class Built:
    def __init__(self) -> None:
        self.user = "ada"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_is_refused_and_runs_none(tmp_path: Path, protocol: int) -> None:
    canary = tmp_path / "canary"
    for value in (Runs(str(canary)), {"_auth_user_id": "1", "x": Runs(str(canary))}, Built(), datetime.now(UTC), {1}):
        written = pickle.dumps(value, protocol)
        with pytest.raises(Unreadable):
            read_pickle(written)
    assert not canary.exists()
    os.system(f"touch {canary}")
    assert canary.exists(), "the canary works"


LOOPED: list[Any] = []
LOOPED.append(LOOPED)


def test_a_pickle_may_hold_itself() -> None:
    read = read_pickle(pickle.dumps({"_auth_user_id": "1", "loop": LOOPED}))
    assert read["_auth_user_id"] == "1"


@pytest.mark.parametrize("form", ["json", "pickle", "msgpack", "java"])
def test_damaged_values_raise_nothing_but_unreadable(form: str) -> None:
    chance = random.Random(form)
    good = {
        "json": b'{"a": [1, "x"]}', "pickle": pickle.dumps({"a": [1, "x", 2.5]}),
        "java": b"\xac\xed\x00\x05t\x00\x03ada",
        "msgpack": msgspec.msgpack.encode({"a": [1, "x", 2.5]}),
    }[form]  # fmt: skip
    for _ in range(3000):
        damaged = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        cut = bytes(damaged[: chance.randint(0, len(damaged))])
        for value in (bytes(damaged), cut):
            try:
                FORMATS[form](value)
            except Unreadable:
                pass


def test_deep_and_large_values_are_refused() -> None:
    for value in (b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xffx", b"\xc1", b"\x01\x02"):
        with pytest.raises(Unreadable):
            read_message_pack(value)
    assert read_message_pack(b"\xd6\xff\x00\x00\x00\x01") is None, "a time is no plain value"


def test_java_texts_and_numbers_are_read() -> None:
    """Byte for byte as the protocol of Java object streams writes them."""
    assert read_java(b"\xac\xed\x00\x05t\x00\x03ada") == "ada"
    long = bytes.fromhex(
        "aced00057372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565787200106a6176612e6c616e67"
        "2e4e756d62657286ac951d0b94e08b0200007870"
    )
    assert read_java(long + struct.pack(">q", 1_404_360_000_000)) == 1_404_360_000_000
    with pytest.raises(Unreadable):
        read_java(b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap")
