"""Two versions at once: today's reads what an earlier version wrote, each continues what the other began, and a client
refuses an unknown schema before it writes anything.

Until 0.9.0 has a tag, commit 3b37f3f is used instead. The data that it wrote are
kept in data/, next to those of 0.9.0. Where the repository's history is available, its code runs next to ours.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from presence_core import CorruptData, ListOrder, LoginRefused, SessionFilter
from presence_core.operations import layout as layout_operations
from tests.conftest import Bed, on
from tests.golden.namespace import SETTINGS as GOLDEN
from tests.support.facade import P
from tests.support.notices import claim, finish, queue_notice
from tests.support.place_file import write_place_file
from tests.support.programs.earlier import comparable

SUPPORT = Path(__file__).parents[2] / "support"
EARLIER = "3e0716e34d"
DATA = SUPPORT / "data" / "schema-1.jsonl"
SETTINGS: dict[str, Any] = {"idle_timeout": 7 * 86_400, "absolute_timeout": 30 * 86_400, "facets": ("tenant",)}
WHY: dict[str, Any] = {"by": "staff", "reason": "test"}


# -- data of an earlier version ----------------------------------------------------------------------------------------


@pytest.fixture
def written(bed: Bed) -> dict[str, Any]:
    """Load the data of the earlier version into this test's namespace; returns the tokens and the time that its site
    knew."""
    return load(bed, DATA, b"{earlier")


def load(bed: Bed, path: Path, namespace: bytes) -> dict[str, Any]:
    """Write the keys of a file into this test's namespace. Returns its first line."""
    first, *lines = path.read_text("utf-8").splitlines()
    for line in lines:
        words = [word.encode("latin-1") for word in json.loads(line)]
        words[1] = words[1].replace(namespace, b"{" + bed.namespace.encode(), 1)
        bed.raw.execute_command(*words)
    known: dict[str, Any] = json.loads(first)
    return known


@pytest.fixture
def today(bed: Bed, written: dict[str, Any]) -> P:
    p = bed.connect(**SETTINGS)
    p.set_now(int(written["now"]))
    return p


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_todays_reader_finds_everything_that_an_earlier_version_wrote(
    today: P, bed: Bed, written: dict[str, Any]
) -> None:
    p = bed.connect(**SETTINGS, heal=False)  # a read-only client
    before = bed.dump()
    assert [session.uid for session in p.list_sessions().items] == ["grace", "grace", "ada", "ada"]
    assert (p.counts().users, p.counts().sessions) == (2, 4)
    assert p.counts().totals == {"login": 9, "logout": 1, "expired": 1, "kicked": 2, "replaced": 0}
    [desk, phone] = p.sessions("ada")
    assert (desk.session_id, phone.last_ip, phone.browser) == ("own-session-of-ada", "198.51.100.9", "Firefox")
    assert (phone.name, phone.aliases, phone.attributes) == ("Ada Lovelace", ("ada@example.org",), {"tenant": "navy"})
    for asked in (SessionFilter(text="lovel"), SessionFilter(ip="192.0.2.0/24"), SessionFilter(app="shop"),
                  SessionFilter(attributes={"tenant": "navy"}), SessionFilter(name_contains="love")):  # fmt: skip
        assert [session.uid for session in p.list_sessions(asked).items] == ["ada", "ada"], asked
    assert {person.uid for person in p.people("emeka")} == {"emeka:okafor"}
    assert p.facets("app") == {"shop": 2}
    assert p.facets("tenant") == {"navy": 2}
    assert [(ended.uid, ended.reason, ended.ticket) for ended in p.ended().items] == [
        ("late", "expired", None), ("grace", "kicked", "T-7"), ("quinn", "expired", None),
        ("mallory", "kicked", "T-7"), ("emeka:okafor", "logout", None),
    ]  # fmt: skip
    assert {block.uid for block in p.blocks()} == {"mallory", "sam"}
    assert [entry.action for entry in p.audit().items].count("block") == 2
    assert sum(entry.action == "denied" for entry in p.audit().items) == 1
    assert {job.state for job in p.jobs()} == {"done", "paused"}
    assert len(p.events()) == 13
    assert [sample.sessions for sample in p.history(int(written["now"]) / 1000 - 60) if sample.sessions is not None]
    assert bed.dump() == before


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_today_serves_ends_and_removes_what_an_earlier_version_began(
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

    def words() -> set[bytes]:
        return {entry for shard in p.context.keys.shards for entry in bed.raw.zrange(shard.words, 0, -1)}

    before = words()
    repaired = p.repair().repaired
    changed = before ^ words()
    assert changed, "entries of an earlier fold, and of today's"
    assert repaired == len(changed) + 4 + 1, "four session ids and a latest address, which it did not index"
    assert p.repair().repaired == 0, "nothing else is untidy"
    assert p.sweep().expired in (0, 1)
    assert p.counts().totals["expired"] == 2
    token = p.rotate(written["phone"]).token
    assert not p.validate(written["phone"])
    assert p.validate(token)
    assert p.resume_job(written["job"], by="staff").state == "running"
    assert [session.uid for session in p.run_job(written["job"]).kicked] == ["grace"]
    assert p.kick("ada", "own-session-of-ada", **WHY)
    assert p.unblock("mallory", **WHY)
    p.login("mallory")
    p.reindex()
    report = p.erase("ada", **WHY)
    assert report.complete
    assert not any(
        b"ada" in key or b"Lovelace" in (value or b"") for key, value in bed.dump().items() if b"labels" not in key
    )
    assert p.repair().repaired == 0
    assert {session.uid for session in p.list_sessions()} == {"grace", "mallory"}


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_data_of_an_earlier_fold_is_found_by_a_scan_until_reindex_has_finished(today: P, bed: Bed) -> None:
    p = today
    asked = SessionFilter(text="lovelace ada")
    [layout] = bed.families()["layout"]
    p.counts()  # reads the layout
    shards = [shard.meta for shard in p.context.keys.shards]
    for _ in range(2):
        found = p.explain(asked)
        assert (found.index, found.incomplete) == ("list", ("uid", "name", "alias"))
        assert [found_user.uid for found_user in p.list_sessions(asked)] == ["ada", "ada"]
        assert p.count_sessions(asked) == 2
        for text in ("lovelace ada", "@example.org", "ada@exam"):
            assert [found_user.uid for found_user in p.people(text)] == ["ada"], text
        assert [found_user.uid for found_user in p.people("okafor, emeka")] == ["emeka:okafor"], "who is offline, too"
        p.login("bob", name="Bo Lovelace", idle_timeout=600)  # of this version, into an index that has both
        p.logout("bob", p.sessions("bob")[0].session_id)
    for place in (layout, *shards):
        assert bed.raw.hget(place, "indexes") == b"", "processes of the earlier version scan, too"
    before = [entry for shard in p.context.keys.shards for entry in bed.raw.zrange(shard.words, 0, -1)]
    assert any(b" " in entry.partition(b"\0")[0] for entry in before)
    p.reindex()
    assert bed.raw.hget(layout, "indexes") == b"uid.5,name.5,alias.5,ip.2,idp.1"
    after = [entry for shard in p.context.keys.shards for entry in bed.raw.zrange(shard.words, 0, -1)]
    assert not any(b" " in entry.partition(b"\0")[0] for entry in after)
    for fresh in (p, bed.connect(**SETTINGS)):
        fresh.set_now(p.clock.ms)
        found = fresh.explain(asked)
        assert (found.index, found.incomplete) == ("text", ())
        assert [found_user.uid for found_user in fresh.list_sessions(asked)] == ["ada", "ada"]
        assert [found_user.uid for found_user in fresh.people("okafor, emeka")] == ["emeka:okafor"]
        session_id = fresh.sessions("ada")[0].session_id
        assert [found_user.session_id for found_user in fresh.list_sessions(SessionFilter(text=session_id))] == [
            session_id
        ]


# -- data of a release -------------------------------------------------------------------------------------------------

RELEASE = SUPPORT / "data" / "release-0.9.0.jsonl"
"""What tests/golden/namespace.py did, written by 0.9.0. It stays as it is: docs/lookup/compatibility.md promises it."""


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_the_data_of_the_release_are_read_ended_and_erased(bed: Bed) -> None:
    known = load(bed, RELEASE, b"{golden")
    settings = {name: value for name, value in GOLDEN.items() if name != "namespace"}
    p = bed.connect(**settings, heal=False)
    p.set_now(known["now"])
    before = bed.dump()
    assert {session.uid for session in p.list_sessions(limit=100).items} == {
        "ada", "eve", "old", "tabs", "user-0", "user-4", "user-5"
    }  # fmt: skip
    [ended] = p.ended("user-2").items
    assert (ended.reason, ended.ticket, ended.message) == ("kicked", "T-1", "Ended.")
    assert p.sessions("tabs")[0].old_token
    assert {block.uid for block in p.blocks()} == {"mallory", "user-2"}
    assert p.staff()[0].role == "admin"
    assert [person.uid for person in p.people("lovelace")] == ["ada"]
    assert {session.place.city for session in p.sessions("ada") if session.place} == {"Berlin", "Sydney"}
    assert p.facets("plan")
    assert {entry.action for entry in p.audit(limit=100).items} >= {"kick", "block", "kick_where", "change_timeouts"}
    assert bed.dump() == before, "a reader writes nothing"
    writer = bed.connect(**settings)
    writer.set_now(known["now"])
    assert writer.repair().repaired == 0, "nothing is untidy for today's code"
    assert writer.kick("eve", **WHY)
    assert writer.erase("ada", **WHY).complete
    assert not any(b"Lovelace" in (value or b"") for value in bed.dump().values())


# -- both at once -----------------------------------------------------------------------------------------------------


class Earlier:
    """A process of the earlier version. It has the methods of Presence; their results are converted by
    ``comparable``."""

    def __init__(self, code: Path, bed: Bed, now: Callable[[], str]) -> None:
        command = [sys.executable, str(SUPPORT / "programs" / "earlier.py"), bed.url, bed.namespace, "{}"]
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
    """The code of the earlier version, from the repository's history."""
    asked = ["git", "archive", EARLIER, "presence_core"]
    git = (
        subprocess.run(asked, cwd=SUPPORT.parents[1], capture_output=True, check=False) if shutil.which("git") else None
    )
    if git is None or git.returncode:  # in CI, too: a clone may lack the history
        pytest.skip(f"commit {EARLIER} is not in this clone, so its code cannot run next to ours")
    where = tmp_path_factory.mktemp("earlier")
    subprocess.run(["tar", "x", "-C", str(where)], input=git.stdout, check=True)
    return where


@pytest.fixture
def earlier(code: Path, bed: Bed) -> Iterator[Earlier]:
    made = Earlier(code, bed, lambda: bed.connect().context.now)
    yield made
    made.close()


@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_and_today_serve_at_the_same_time(p: P, earlier: Earlier) -> None:
    p.freeze()
    theirs = earlier.login("ada", name="Ada Lovelace", device="phone", ip="192.0.2.7")
    ours = p.login("ada", name="Ada Lovelace", device="desk", ip="192.0.2.7").token
    for token in (theirs, ours):
        assert p.validate(token)
        assert earlier.validate(token) is True
    assert earlier.sessions("ada") == comparable(p.sessions("ada"))
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
def test_random_actions_in_both_versions_leave_consistent_data(p: P, earlier: Earlier) -> None:
    draw, now = random.Random(7), p.freeze()
    uids = [f"u{number}" for number in range(6)]
    tokens: list[str] = []
    for step in range(250):
        side: Any = draw.choice((p, earlier))
        uid, token = draw.choice(uids), draw.choice(tokens or ["x.y.z"])
        match draw.randrange(8):
            case 0 | 1 | 2:
                device = draw.choice(("phone", "desk"))
                tokens.append(
                    comparable(side.login(uid, name=f"N {uid}", device=device, ip="192.0.2.7", idle_timeout=40))
                )
            case 3:
                assert comparable(p.validate(token, touch=False)) == earlier.validate(token, touch=False)
                side.validate(token)
            case 4:
                side.kick(uid, **WHY)
            case 5:
                side.sweep()
            case 6:
                now += 9_000
                p.set_now(now)
            case 7:
                assert earlier.counts() == comparable(p.counts())
        if step % 50 == 49:
            assert earlier.list_sessions() == comparable(p.list_sessions())
            assert earlier.facets("device") == p.facets("device")
    assert len(tokens) > 60
    p.reindex()  # the versions have other forms of the indexes
    p.sweep()
    assert p.repair().repaired == 0
    earlier.sweep()
    assert earlier.list_sessions() == comparable(p.list_sessions())
    counts = p.counts()
    assert counts.totals["login"] - sum(
        counts.totals[reason] for reason in ("logout", "expired", "kicked", "replaced")
    ) == (counts.sessions)


@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_reads_and_ends_what_today_has_renamed(p: P, earlier: Earlier) -> None:
    p.freeze()
    theirs = earlier.login("ada", name="Ada Lovelace", aliases=["ada@example.org"], device="phone")
    ours = p.login("ada", name="Ada Lovelace", device="desk").session
    assert p.update_person("ada", name="Ada King", aliases=["king@example.org"]) == 2
    assert p.update_session("ada", ours.session_id, device="tablet")
    assert earlier.validate(theirs) is True
    assert earlier.sessions("ada") == comparable(p.sessions("ada"))
    assert {name for _, name in earlier.sessions("ada")} == {"Ada King"}
    assert earlier.facets("device") == p.facets("device") == {"phone": 1, "tablet": 1}
    earlier.kick("ada", **WHY)
    assert [(person.name, person.aliases) for person in p.people("ada")] == [("Ada King", ("king@example.org",))]
    p.update_person("ada", name="Ada Byron")
    assert earlier.people("ada") == [True]
    assert comparable(p.login("ada", name="Ada Byron"))
    assert earlier.facets("device") == p.facets("device") == {}
    p.reindex()  # the versions have other forms of the indexes
    assert p.repair().repaired == 0


@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_serves_and_ends_sessions_of_an_identity_provider(p: P, earlier: Earlier) -> None:
    now = p.freeze() / 1000
    idp = {"iss": "https://idp.example.com", "sub": "1", "sid": "2"}
    tokens = [p.login("ada", session_id=f"session-{n}", idp=idp, expires_at=now + 600).token for n in range(3)]
    wanted = SessionFilter(idp_issuer=idp["iss"], idp_session="2")
    assert all(earlier.validate(token) is True for token in tokens)
    assert earlier.sessions("ada") == comparable(p.sessions("ada"))
    earlier.kick("ada", "session-0", **WHY)
    assert sorted(session.session_id for session in p.list_sessions(wanted)) == ["session-1", "session-2"]
    assert p.explain(wanted).index == "idp"
    p.set_now(round((now + 600) * 1000))
    assert [earlier.validate(token) for token in tokens] == [False] * 3, "it ends them at the same time"
    earlier.sweep()
    p.reindex()
    assert {ended.idp_expires_at for ended in p.ended("ada")} == {p.clock.now}
    assert p.list_sessions(wanted).items == []
    assert p.repair().repaired == 0


@pytest.mark.parametrize("change", ["rotate", "reauthenticated"])
@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_knows_the_newest_token_alone_and_a_change_of_its_own_ends_all_former_ones(
    bed: Bed, earlier: Earlier, change: str
) -> None:
    p = bed.connect(rotate_grace=300)
    p.freeze()
    first = p.login("ada").token
    tokens = [first, *(p.rotate(first).token for _ in range(3))]
    assert [earlier.validate(token) for token in tokens] == [False, True, False, False]
    assert all(map(p.validate, tokens))
    theirs = getattr(earlier, change)(tokens[1])
    assert [bool(p.validate(token)) for token in (*tokens, theirs)] == [False] * 4 + [True]
    ours = p.rotate(theirs).token
    assert [bool(p.validate(token)) for token in (*tokens, theirs, ours)] == [False] * 4 + [True] * 2
    assert p.validate(p.rotate(theirs).token)
    p.advance(300)
    assert not p.validate(theirs)
    assert [session.old_token for session in p.sessions("ada")] == [True]
    assert earlier.sessions("ada") == comparable(p.sessions("ada"))
    assert comparable(p.login("ada", session_id=p.sessions("ada")[0].session_id))
    earlier.kick("ada", **WHY)
    assert [ended.old_token for ended in p.ended("ada")] == [True]
    assert p.repair().repaired == 0


@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_reads_an_end_that_the_user_asked_for_and_leaves_notices_alone(
    p: P, earlier: Earlier
) -> None:
    p.freeze()
    login = p.login("ada", session_id="session-1")
    notice = queue_notice(p, login.session)
    earlier.sweep()
    assert p.notices_of("ada") == [notice]
    assert p.answer_notice("ada", "session-1", login.session.login_at, "not_me", until=p.clock.now.timestamp() + 60)
    assert earlier.validate(login.token) is False
    assert earlier.sessions("ada") == []
    earlier.login("ada", session_id="session-2")
    assert [ended.cause for ended in p.ended("ada")] == ["denied"]
    assert p.repair().repaired == 0


@on("valkey-sync", "redis7-sync")
def test_a_notice_that_an_earlier_version_queued_is_sent_and_answered(p: P, bed: Bed) -> None:
    p.freeze()
    p.login("ada", device_id="device-phone")
    p.advance(1)
    session = p.login("ada", device_id="device-laptop").session
    queued = queue_notice(p, session)
    key = p.context.shard("ada").notices("ada")
    stored = json.loads(bed.raw.hget(key, queued.id))
    names = ("sid", "at", "kinds", "state", "until", "due")
    bed.raw.hset(key, queued.id, json.dumps({name: stored[name] for name in names}))
    claimed = claim(p, "ada")
    assert claimed.notice == replace(queued, state="sending", devices=())
    assert finish(p, claimed)
    assert p.answer_notice("ada", session.session_id, session.login_at, "not_me", until=p.clock.now.timestamp() + 60)
    assert p.login("ada", device_id="device-laptop").session.new_device


@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_serves_and_ends_a_session_that_has_moved(
    bed: Bed, earlier: Earlier, tmp_path: Path
) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    p.freeze()
    theirs, ours = earlier.login("ada", ip="192.0.2.7"), p.login("ada", ip="192.0.2.7").token
    p.advance(60)
    assert [p.validate(token, ip="203.0.113.7").moved for token in (theirs, ours)] == [False, True], (
        "of theirs the place is not known"
    )
    assert [p.validate(token, ip="192.0.2.7").moved for token in (theirs, ours)] == [True, False]
    assert [earlier.validate(token) for token in (theirs, ours)] == [True, True]
    assert earlier.sessions("ada") == comparable(p.sessions("ada"))
    assert [session.moved for session in p.list_sessions(SessionFilter(moved=True))] == [True] * 2
    earlier.kick("ada", **WHY)
    assert [(ended.moved, ended.move is not None) for ended in p.ended("ada")] == [(True, True)] * 2
    assert p.repair().repaired == 0


@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_uses_the_timeouts_that_staff_changed(p: P, earlier: Earlier) -> None:
    p.freeze()
    theirs = earlier.login("ada", device="phone", idle_timeout=600, absolute_timeout=7200)
    session_id = theirs.split(".")[1]
    p.change_timeouts("ada", session_id, idle_timeout=6000, absolute_timeout=9000, **WHY)
    p.advance(5000)
    assert earlier.validate(theirs) is True, "it has moved the deadline by the longer timeout"
    p.advance(3999)
    assert earlier.sweep() == [0, 0]
    assert earlier.sessions("ada") == comparable(p.sessions("ada"))
    p.change_timeouts("ada", session_id, idle_timeout=60, **WHY)
    assert earlier.validate(theirs) is False
    assert earlier.sweep() == [1, 0]
    assert [ended.reason for ended in p.ended("ada")] == ["expired"]
    assert p.repair().repaired == 0
    theirs = earlier.login("bob", device="phone")
    p.change_timeouts_where(SessionFilter(device="phone"), idle_timeout=60, expected=1, **WHY)
    p.advance(61)
    assert earlier.validate(theirs) is False
    assert earlier.audit() == [True] * 4, "it reads each entry, also those with a filter"
    p.login("cyd", device="phone")
    job = p.start_timeouts(SessionFilter(uid="cyd"), idle_timeout=60, expected=1, **WHY)
    assert earlier.jobs()[0] is True
    with pytest.raises(AssertionError, match="a job of a newer version"):
        earlier.run_job(job.id)
    assert earlier.pause_job(job.id, by="staff")
    assert earlier.resume_job(job.id, by="staff")
    p.login("dan", device="desk")
    kick = p.start_kick(SessionFilter(uid="dan"), expected=1, **WHY)
    assert earlier.work() is True, "its worker leads, ends whom the kick names, and leaves the other job as it is"
    assert [at_work.state for at_work in map(p.job, (kick.id, job.id)) if at_work] == ["done", "running"]
    assert p.sessions("dan") == []
    assert p.sessions("cyd")[0].idle_timeout == 1800
    assert p.run_job(job.id).count == 1
    assert p.sessions("cyd")[0].idle_timeout == 60


def test_sessions_on_behalf_of_users_of_both_versions_are_listed_and_end_in_both(p: P, earlier: Earlier) -> None:
    p.freeze()
    earlier.login("ada", on_behalf_by="sam", reason="test")
    p.login("bob", on_behalf_by="sam", reason="test")
    p.login("bob")

    def uids(order: ListOrder) -> list[str]:
        return sorted(session.uid for session in p.list_sessions(order=order))

    assert uids("login") == ["ada", "bob", "bob"]
    assert uids("last_seen") == ["bob", "bob"], "docs/run/upgrade.md: those of an earlier version are missing"
    p.login("ada")
    assert uids("last_seen") == ["ada", "bob", "bob"]
    earlier.kick("bob", **WHY)
    assert (uids("login"), uids("last_seen")) == (["ada", "ada"], ["ada"])
    p.erase("bob", **WHY)
    assert p.repair().repaired == 0


def test_an_earlier_version_leaves_remarks_as_they_are(p: P, earlier: Earlier) -> None:
    p.freeze()
    p.login("ada", name="Ada")
    remark = p.add_remark("ada", "calls about refunds", by="sam")
    earlier.kick("ada", **WHY)
    earlier.sweep()
    assert earlier.audit() == [True] * 2, "it reads the action, which it does not know"
    assert p.reindex() is not None
    assert p.remarks("ada") == [remark]
    earlier.erase("ada", **WHY)
    assert p.remarks("ada") == [remark], "docs/run/upgrade.md: an earlier version does not know them"
    p.erase("ada", **WHY)
    assert p.remarks() == []
    assert p.repair().repaired == 0


def test_an_earlier_version_leaves_failed_sign_ins_as_they_are(p: P, earlier: Earlier) -> None:
    p.freeze()
    p.login("ada", name="Ada")
    for _ in range(5):
        p.login_failed("ada", why="wrong_password", ip="192.0.2.7")
    earlier.login("ada")
    assert p.login("ada", session_id="session-ada").failures == 5, "its login counts nothing"
    earlier.kick("ada", **WHY)
    earlier.sweep()
    assert p.reindex() is not None
    assert [failure.count for failure in p.failed_logins("ada")] == [5]
    p.block("ada", **WHY)
    with pytest.raises(LoginRefused):
        p.login("ada")
    earlier.erase("ada", **WHY)
    assert len(p.failed_logins("ada")) == 2, "docs/run/upgrade.md: an earlier version does not know them"
    p.erase("ada", **WHY)
    assert p.failed_logins().items == []
    assert p.repair().repaired == 0


def test_a_login_of_an_earlier_version_is_in_no_sign_in_history_and_is_a_previous_login(
    p: P, bed: Bed, earlier: Earlier
) -> None:
    on = bed.connect(keep_sign_ins=30)
    on.freeze()
    first = on.login("ada", device="desk").session
    on.advance(1)
    earlier.login("ada", device="phone")
    on.advance(1)
    last = on.login("ada", device="tablet").session
    previous = on.previous_login("ada", last.session_id)
    assert previous is not None
    assert previous.device == "phone"
    assert [sign_in.device for sign_in in on.sign_ins("ada")] == ["tablet", "desk"]
    earlier.kick("ada", **WHY)
    earlier.sweep()
    assert [sign_in.at for sign_in in on.sign_ins("ada")] == [last.login_at, first.login_at]
    earlier.erase("ada", **WHY)
    assert on.sign_ins("ada"), "docs/run/upgrade.md: an earlier version does not know them"
    on.erase("ada", **WHY)
    assert on.sign_ins("ada") == []


def test_a_history_begins_with_the_first_login_after_an_upgrade(today: P, bed: Bed) -> None:
    p = bed.connect(**SETTINGS, keep_sign_ins=30)
    before = today.list_sessions(limit=1).items[0]
    assert p.sign_ins(before.uid) == []
    p.advance(1)
    session = p.login(before.uid, device="new").session
    assert [sign_in.at for sign_in in p.sign_ins(before.uid)] == [session.login_at]
    previous = p.previous_login(before.uid, session.session_id)
    assert previous is not None
    assert (previous.at, previous.device) == (before.login_at, before.device)


@on("valkey-sync", "redis7-sync")
def test_an_earlier_version_leaves_requests_alone_and_reads_their_audit(p: P, bed: Bed, earlier: Earlier) -> None:
    p.freeze()
    p.login("ada", name="Ada Lovelace", device="phone")
    asked = p.ask_approval(filter=SessionFilter(text="lovelace"), country="FR", sessions=1, lapse_after=3600, **WHY)
    assert earlier.audit() == [True]
    earlier.sweep()
    earlier.repair()
    earlier.kick("ada", **WHY)
    assert p.approval_requests() == [asked]
    earlier.erase("ada", **WHY)
    assert b"lovelace" in b"".join(bed.raw.hvals(p.context.keys.shards[0].approvals)), "docs/run/upgrade.md says so"
    p.answer_request(asked.id, "approve", by="grace")
    assert earlier.audit() == [True] * 4
    assert p.repair().repaired == 0


# -- the gate ---------------------------------------------------------------------------------------------------------

ACTS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("login", ("ada",), {}),
    ("validate", ("x",), {}),
    ("kick", ("ada",), WHY),
    ("sweep", (), {}),
    ("repair", (), {}),
    ("list_sessions", (), {}),
    ("erase", ("ada",), WHY),
    ("block", ("ada",), WHY),
]
NEWER = "The data has schema 6; this version reads 4 and 5: upgrade presence-core."
OLDER = "The data has schema 3; this version reads 4 and 5: upgrade the data version by version."


@pytest.mark.parametrize(("stored", "sentence"), [(3, OLDER), (4, None), (5, None), (6, NEWER)], ids="3456")
@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_a_client_serves_its_schema_and_the_one_before_and_refuses_others(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, stored: int, sentence: str | None
) -> None:
    bed.connect().login("ada")
    [layout] = bed.families()["layout"]
    bed.raw.hset(layout, "schema", stored)
    monkeypatch.setattr(layout_operations, "SCHEMA", 5)
    before = bed.dump()
    for method, args, options in ACTS:
        p = bed.connect()
        if sentence is None:
            getattr(p, method)(*args, **options)
            continue
        for _ in range(2):  # a second try changes nothing
            with pytest.raises(CorruptData) as refused:
                getattr(p, method)(*args, **options)
            assert str(refused.value) == sentence
        assert bed.dump() == before
    assert bed.raw.hget(layout, "schema") == b"%d" % stored


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_a_process_that_runs_while_the_schema_changes_refuses_it_too(bed: Bed) -> None:
    p = bed.connect()
    token = p.login("ada").token
    [layout] = bed.families()["layout"]
    bed.raw.hset(layout, "schema", 3)
    p.context.cache.look_at = 0.0  # five seconds have passed
    before = bed.dump()
    for _ in range(2):
        with pytest.raises(CorruptData, match="schema 3; this version reads 1: upgrade"):
            p.validate(token)
        with pytest.raises(CorruptData, match="schema 3"):
            p.login("bob")
    assert bed.dump() == before
    bed.raw.hset(layout, "schema", 1)
    assert p.validate(token)


@on("valkey-async", "redis7-sync")
def test_a_layout_that_does_not_say_when_it_was_written_is_no_loss_of_data(bed: Bed) -> None:
    bed.connect().login("ada")
    [layout] = bed.families()["layout"]
    bed.raw.hdel(layout, "born")  # as earlier versions wrote it
    p = bed.connect()
    for _ in range(2):
        assert p.counts().sessions == 1
        p.context.cache.look_at = 0.001  # five seconds have passed
    assert bed.raw.hget(layout, "lost") is None
    for key in [key for keys in bed.families().values() for key in keys]:
        bed.raw.delete(key)
    p.login("bob")
    assert bed.raw.hexists(layout, "lost")
    assert bed.raw.hexists(layout, "born")


@on("valkey-sync")
def test_an_unfinished_layout_of_another_schema_is_not_completed(bed: Bed) -> None:
    layout = f"{{{bed.namespace}}}:layout"
    bed.raw.hset(layout, "schema", 6)
    with pytest.raises(CorruptData, match="schema 6"):
        bed.connect().login("ada")
    assert bed.raw.hgetall(layout) == {b"schema": b"6"}


@on("valkey-sync")
@pytest.mark.parametrize("stored", ["0", "-1", "x", ""])
def test_an_impossible_schema_is_reported_as_corrupt(bed: Bed, stored: str) -> None:
    bed.connect().counts()
    [layout] = bed.families()["layout"]
    bed.raw.hset(layout, "schema", stored)
    with pytest.raises(CorruptData, match="holds data that presence_core did not write"):
        bed.connect().counts()
