"""A session as it is decoded from a reply: a frozen dataclass like one that was made by its constructor."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, fields, replace

import pytest

from presence_core import Ended, Session
from presence_core.models.sessions import CORE
from presence_core.schema.record import read_record

CORE_OF_A_LOGIN = CORE.pack(1_700_000_000_000, 1800, 86400, b"d" * 16, b"aaaa", b"bbbb") + bytes([192, 0, 2, 1])
LABELS = {b"aaaa": b"phone\nshop\n1.2", b"bbbb": b"iOS\nSafari\nMozilla/5.0"}
RECORD = [
    b"s",
    b"1700000000500",
    b"c",
    CORE_OF_A_LOGIN,
    b"n",
    b"Amina",
    b"a",
    b"a@example.org\n555",
    b"x",
    b'{"plan":1}',
]


def _decoded(kind: type[Session] | type[Ended]) -> Session | Ended:
    return kind.from_reply("u1", "s1", read_record(RECORD), LABELS)


@pytest.mark.parametrize("kind", [Session, Ended])
def test_a_decoded_session_equals_one_that_was_constructed(kind: type[Session] | type[Ended]) -> None:
    found = _decoded(kind)
    assert type(found) is kind
    constructed = kind(**{field.name: getattr(found, field.name) for field in fields(kind)})
    assert found == constructed
    assert repr(found) == repr(constructed)
    assert hash(found) == hash(constructed)
    assert asdict(found) == asdict(constructed)
    assert pickle.loads(pickle.dumps(found)) == copy.copy(found) == constructed
    assert replace(found, name="other").name == "other"


@pytest.mark.parametrize("kind", [Session, Ended])
def test_a_decoded_session_cannot_be_changed(kind: type[Session] | type[Ended]) -> None:
    found = _decoded(kind)
    with pytest.raises(FrozenInstanceError):
        found.name = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del found.name
    assert found.name == "Amina"


def test_unknown_fields_of_a_record_are_left_out() -> None:
    assert read_record([*RECORD, b"zz", b"of a later version"]) == read_record(RECORD)
    assert read_record(dict(zip(RECORD[::2], RECORD[1::2], strict=True))) == read_record(RECORD)
