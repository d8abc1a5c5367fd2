"""Operations that read one part of a scan while they work on the part before; the test plays the server's replies."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import Unavailable
from presence_core.operations.reshard.fences import RENEW_EVERY, renewing
from presence_core.operations.scan import read_ahead
from presence_core.scripts.calls import Call, Op, command

PARTS: dict[Any, tuple[bytes, str]] = {b"0": (b"7", "abc"), b"7": (b"9", ""), b"9": (b"0", "de")}


def read(cursor: bytes) -> Call:
    return command("list", "SCAN", cursor)


def played(op: Op[Any]) -> list[list[tuple[Any, ...]]]:
    """The batches of an operation, whose scans have PARTS and whose other calls have their last word as reply."""
    batches: list[list[tuple[Any, ...]]] = []
    try:
        calls = next(op)
        while True:
            batches.append([tuple(call.words) for call in calls])
            calls = op.send([PARTS[call.words[1]] if call.words[0] == "SCAN" else call.words[-1] for call in calls])
    except StopIteration:
        return batches


def test_a_scan_reads_the_next_part_in_front_of_the_work_on_this_one_and_the_writes_of_the_last() -> None:
    written: list[str] = []

    def copy(part: str) -> Op[None]:
        if not part:
            return
        [found] = yield [command("list", "GET", part)]
        written.extend((yield [command("list", "SET", letter) for letter in found]))

    assert played(read_ahead(read, copy)) == [
        [("SCAN", b"0")],
        [("SCAN", b"7"), ("GET", "abc")],
        [("SCAN", b"9"), ("SET", "a"), ("SET", "b"), ("SET", "c")],
        [("GET", "de")],
        [("SET", "d"), ("SET", "e")],
    ]
    assert "".join(written) == "abcde"


def test_the_work_on_a_part_ends_before_the_second_batch_for_the_next_is_sent() -> None:
    order: list[str] = []

    def work(part: str) -> Op[None]:
        for step in "123":
            [reply] = yield [command("list", "GET", f"{part}{step}")]
            order.append(str(reply))

    played(read_ahead(read, work))
    of_part = {part: [reply for reply in order if reply[:-1] == part] for part in ("abc", "", "de")}
    assert of_part == {part: [f"{part}{step}" for step in "123"] for part in of_part}
    assert order.index("abc3") < order.index("2") < order.index("3") < order.index("de2")


def test_a_claim_is_renewed_once_a_second_and_its_loss_ends_the_operation() -> None:
    now = [100.0]

    def work() -> Op[str]:
        for number in range(4):
            yield [command("list", "GET", str(number))]
            now[0] += RENEW_EVERY / 2
        return "done"

    renewal = command("fence", "RENEW")
    assert [len(batch) for batch in played(renewing([renewal], work(), lambda: now[0]))] == [2, 1, 2, 1]
    op = renewing([renewal], work(), lambda: now[0])
    next(op)
    with pytest.raises(Unavailable, match="lost its claim"):
        op.send([0, "0"])
