"""Versions side by side: what an earlier one wrote is read by today's, each serves what the other began, and a client
that does not know a schema refuses it before it has written anything.

Nothing has been released yet, so there is no earlier tag. What stands for one is commit 3b37f3f: its data, as it wrote
them, are kept in data/; where the repository's history is at hand, its code runs beside ours.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from presence_core import CorruptData, SessionFilter
from presence_core.operations import upkeep
from tests.conftest import Bed, on
from tests.earlier import told
from tests.facade import P

HERE = Path(__file__).parent
EARLIER = "3b37f3fadf"
DATA = HERE / "data" / "schema-1.jsonl"
SETTINGS: dict[str, Any] = {"idle_timeout": 7 * 86_400, "absolute_timeout": 30 * 86_400, "facets": ("tenant",)}
WHY: dict[str, Any] = {"by": "staff", "reason": "test"}


# -- data of an earlier version ----------------------------------------------------------------------------------------


@pytest.fixture
def written(bed: Bed) -> dict[str, Any]:
    """What the earlier version left, in this test's namespace; answers what its site knew."""
    first, *lines = DATA.read_text("utf-8").splitlines()
    for line in lines:
        words = [word.encode("latin-1") for word in json.loads(line)]
        words[1] = words[1].replace(b"{earlier", b"{" + bed.namespace.encode(), 1)
        bed.raw.execute_command(*words)
    known: dict[str, Any] = json.loads(first)
    return known


@pytest.fixture
def today(bed: Bed, written: dict[str, Any]) -> P:
    p = bed.connect(**SETTINGS)
    p.set_now(int(written["now"]))
    return p


@on("valkey", "redis7")
def test_todays_reader_finds_all_that_an_earlier_version_wrote(today: P, bed: Bed, written: dict[str, Any]) -> None:
    p = bed.connect(**SETTINGS, heal=False)  # a reader, and no more
    before = bed.dump()
    assert [one.uid for one in p.list_sessions().items] == ["grace", "grace", "ada", "ada"]
    assert (p.counts().users, p.counts().sessions) == (3, 4), "users are as of the last sweep"
    assert p.counts().totals == {"login": 9, "logout": 1, "expired": 1, "kicked": 2, "replaced": 0}
    [desk, phone] = p.sessions("ada")
    assert (desk.session_id, phone.last_ip, phone.browser) == ("own-session-of-ada", "198.51.100.9", "Firefox")
    assert (phone.name, phone.aliases, phone.attributes) == ("Ada Lovelace", ("ada@example.org",), {"tenant": "navy"})
    for asked in (SessionFilter(text="lovel"), SessionFilter(ip="192.0.2.0/24"), SessionFilter(app="shop"),
                  SessionFilter(attributes={"tenant": "navy"}), SessionFilter(name_contains="love")):  # fmt: skip
        assert [one.uid for one in p.list_sessions(asked).items] == ["ada", "ada"], asked
    assert {one.uid for one in p.people("emeka")} == {"emeka:okafor"}
    assert p.facets("app") == {"shop": 2}
    assert p.facets("tenant") == {"navy": 2}
    assert [(one.uid, one.reason, one.ticket) for one in p.ended().items] == [
        ("grace", "kicked", "T-7"), ("quinn", "expired", None), ("mallory", "kicked", "T-7"),
        ("emeka:okafor", "logout", None),
    ]  # fmt: skip
    assert {one.uid for one in p.blocks()} == {"mallory", "sam"}
    assert [one.action for one in p.audit().items].count("block") == 2
    assert sum(one.action == "denied" for one in p.audit().items) == 1
    assert {one.state for one in p.jobs()} == {"done", "paused"}
    assert len(p.events()) == 13
    assert [one.sessions for one in p.history(int(written["now"]) / 1000 - 60) if one.sessions is not None]
    assert bed.dump() == before


@on("valkey", "redis7")
def test_today_serves_ends_and_tidies_what_an_earlier_version_began(
    today: P, bed: Bed, written: dict[str, Any]
) -> None:
    p = today
    for name in ("phone", "desk", "grace 0", "grace 2"):
        assert p.validate(written[name]), name
    for name, reason in (("left", "logout"), ("kicked", "kicked"), ("expired", "expired"), ("grace 1", "kicked")):
        ended = p.validate(written[name]).ended
        assert ended is not None
        assert ended.reason == reason, name
    assert not p.validate(written["due"])
    assert p.repair().repaired == 0, "nothing of it is untidy"
    assert p.sweep().expired in (0, 1)
    assert p.counts().totals["expired"] == 2
    token = p.rotate(written["phone"]).token
    assert not p.validate(written["phone"])
    assert p.validate(token)
    assert p.resume_job(written["job"], by="staff").state == "running"
    assert [one.uid for one in p.run_job(written["job"]).kicked] == ["grace"]
    assert p.kick("ada", "own-session-of-ada", **WHY)
    assert p.unblock("mallory", **WHY)
    p.login("mallory")
    p.reindex()
    report = p.forget("ada", **WHY)
    assert report.complete
    assert not any(
        b"ada" in key or b"Lovelace" in (value or b"") for key, value in bed.dump().items() if b"labels" not in key
    )
    assert p.repair().repaired == 0
    assert {one.uid for one in p.list_sessions()} == {"grace", "mallory"}


# -- both at once -----------------------------------------------------------------------------------------------------


class Earlier:
    """A process of the earlier version. Methods as of Presence; what they answer is told as ``told`` has it."""

    def __init__(self, code: Path, bed: Bed, now: Callable[[], str]) -> None:
        command = [sys.executable, str(HERE / "earlier.py"), bed.url, bed.namespace, "{}"]
        self._process = subprocess.Popen(
            command, cwd=code, env={"PYTHONPATH": str(code), "PATH": ""}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._now = now
        assert self._read().startswith(str(code)), "it is the earlier code that runs"

    def _read(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            assert self._process.stdin
            self._process.stdin.write(json.dumps([self._now(), method, args, options]).encode() + b"\n")
            self._process.stdin.flush()
            said = self._read()
            assert "error" not in said, (method, args, said)
            return said["answer"]

        return call

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The earlier version, out of the repository's history."""
    asked = ["git", "archive", EARLIER, "presence_core"]
    git = subprocess.run(asked, cwd=HERE.parent, capture_output=True, check=False) if shutil.which("git") else None
    if git is None or git.returncode:  # in CI, too: a clone need not have its history
        pytest.skip(f"commit {EARLIER} is not in this clone, so its code cannot run beside ours")
    where = tmp_path_factory.mktemp("earlier")
    subprocess.run(["tar", "x", "-C", str(where)], input=git.stdout, check=True)
    return where


@pytest.fixture
def earlier(code: Path, bed: Bed) -> Iterator[Earlier]:
    made = Earlier(code, bed, lambda: bed.connect().context.now)
    yield made
    made.close()


@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_and_today_serve_side_by_side(p: P, earlier: Earlier) -> None:
    p.freeze()
    theirs = earlier.login("ada", name="Ada Lovelace", device="phone", ip="192.0.2.7")
    ours = p.login("ada", name="Ada Lovelace", device="desk", ip="192.0.2.7").token
    for token in (theirs, ours):
        assert p.validate(token)
        assert earlier.validate(token) is True
    assert earlier.sessions("ada") == told(p.sessions("ada"))
    assert len(p.list_sessions(SessionFilter(text="lovelace")).items) == 2
    p.kick("ada", theirs.split(".")[1], **WHY)
    assert earlier.validate(theirs) is False
    earlier.kick("ada", **WHY)
    assert not p.validate(ours)
    p.block("ada", **WHY)
    assert earlier.blocked("ada") is True
    earlier.unblock("ada", **WHY)
    assert p.blocked("ada") is None


@on("valkey-sync", "redis7-sync")
def test_a_random_life_in_both_versions_leaves_everything_in_agreement(p: P, earlier: Earlier) -> None:
    draw, now = random.Random(7), p.freeze()
    uids = [f"u{number}" for number in range(6)]
    tokens: list[str] = []
    for step in range(250):
        side: Any = draw.choice((p, earlier))
        uid, token = draw.choice(uids), draw.choice(tokens or ["x.y.z"])
        match draw.randrange(8):
            case 0 | 1 | 2:
                device = draw.choice(("phone", "desk"))
                tokens.append(told(side.login(uid, name=f"N {uid}", device=device, ip="192.0.2.7", idle_timeout=40)))
            case 3:
                assert told(p.validate(token, touch=False)) == earlier.validate(token, touch=False)
                side.validate(token)
            case 4:
                side.kick(uid, **WHY)
            case 5:
                side.sweep()
            case 6:
                now += 9_000
                p.set_now(now)
            case 7:
                assert earlier.counts() == told(p.counts())
        if step % 50 == 49:
            assert earlier.list_sessions() == told(p.list_sessions())
            assert earlier.facets("device") == p.facets("device")
    assert len(tokens) > 60
    for side in (p, earlier):
        side.sweep()
        assert told(side.repair())[1] == 0
    counts = p.counts()
    assert counts.totals["login"] - sum(counts.totals[one] for one in ("logout", "expired", "kicked", "replaced")) == (
        counts.sessions
    )


# -- the gate ---------------------------------------------------------------------------------------------------------

ACTS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("login", ("ada",), {}),
    ("validate", ("x",), {}),
    ("kick", ("ada",), WHY),
    ("sweep", (), {}),
    ("repair", (), {}),
    ("list_sessions", (), {}),
    ("forget", ("ada",), WHY),
    ("block", ("ada",), WHY),
]
NEWER = "The data has schema 6; this version reads 4 and 5: upgrade presence-core."
OLDER = "The data has schema 3; this version reads 4 and 5: move it forward, version by version."


@pytest.mark.parametrize(("stored", "sentence"), [(3, OLDER), (4, None), (5, None), (6, NEWER)], ids="3456")
@on("valkey", "cluster-sync")
def test_a_client_serves_its_schema_and_the_one_before_and_refuses_others(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, stored: int, sentence: str | None
) -> None:
    bed.connect().login("ada")
    [layout] = bed.families()["layout"]
    bed.raw.hset(layout, "schema", stored)
    monkeypatch.setattr(upkeep, "SCHEMA", 5)
    before = bed.dump()
    for method, args, options in ACTS:
        p = bed.connect()
        if sentence is None:
            getattr(p, method)(*args, **options)
            continue
        for _ in range(2):  # asking again changes nothing
            with pytest.raises(CorruptData) as refused:
                getattr(p, method)(*args, **options)
            assert str(refused.value) == sentence
        assert bed.dump() == before
    assert bed.raw.hget(layout, "schema") == b"%d" % stored


@on("valkey", "cluster-sync")
def test_a_process_that_was_there_before_the_schema_moved_on_refuses_it_too(bed: Bed) -> None:
    p = bed.connect()
    token = p.login("ada").token
    [layout] = bed.families()["layout"]
    bed.raw.hset(layout, "schema", 3)
    p.context.look_at = 0.0  # five seconds have passed
    before = bed.dump()
    for _ in range(2):
        with pytest.raises(CorruptData, match="schema 3; this version reads 1: upgrade"):
            p.validate(token)
        with pytest.raises(CorruptData, match="schema 3"):
            p.login("bob")
    assert bed.dump() == before
    bed.raw.hset(layout, "schema", 1)
    assert p.validate(token)


@on("valkey-sync")
def test_a_layout_of_another_schema_that_was_begun_and_left_is_not_filled_in(bed: Bed) -> None:
    layout = f"{{{bed.namespace}}}:layout"
    bed.raw.hset(layout, "schema", 6)
    with pytest.raises(CorruptData, match="schema 6"):
        bed.connect().login("ada")
    assert bed.raw.hgetall(layout) == {b"schema": b"6"}


@on("valkey-sync")
@pytest.mark.parametrize("stored", ["0", "-1", "x", ""])
def test_a_schema_that_there_never_was_is_said_to_be_corrupt(bed: Bed, stored: str) -> None:
    bed.connect().counts()
    [layout] = bed.families()["layout"]
    bed.raw.hset(layout, "schema", stored)
    with pytest.raises(CorruptData, match="holds what presence_core never wrote"):
        bed.connect().counts()
