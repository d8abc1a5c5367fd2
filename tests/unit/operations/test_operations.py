"""Operations on sessions and searches, driven by hand: ``next(op)``, ``op.send(reply)``. No server runs here."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from presence_core import InvalidArgument, LoginRefused, OutcomeUnknown, SessionFilter, Settings, Unavailable
from presence_core.operations import cursors
from presence_core.operations.context import Context
from presence_core.operations.merged_lists import LOOK_AT, Entry, MergedLists, ZsetPart, is_zset_position, scan
from presence_core.operations.search import list_sessions, planner
from presence_core.operations.search.rebuild import IndexedUser, Names, stale_words
from presence_core.operations.search.shard_merge import Gathered, Merge
from presence_core.operations.sessions import events, login, validate
from presence_core.operations.staff import block_rules, blocks
from presence_core.operations.staff.rule_storage import store_rules_call
from presence_core.schema.record import NO_ROW, SessionRow
from presence_core.scripts.bulk_kick import KICK_SESSIONS
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.search import COUNT_CANDIDATES, COUNT_LIVE, READ_NEWEST, READ_PAGE, WALK_SESSIONS
from presence_core.scripts.sessions import (
    BEGIN_SESSIONS,
    END_SESSIONS,
    ENDED,
    HEARTBEAT,
    LIVE,
    LOGIN,
    READ_EVENTS,
    READ_SESSIONS,
    ROTATE_SECRET,
    UNKNOWN,
    VALIDATE,
    HeartbeatReply,
    LoginReply,
    RefusedReply,
)
from presence_core.scripts.staff import STORE_BLOCK_RULES, UNBLOCK_USER
from presence_core.text.search_text import entries

NOW = 1_700_000_000_000
INDEXES = b"uid.5,name.5,alias.5,ip.2,idp.1"
Answer = Callable[[Call], Any]


def context(shards: int = 1, complete: bytes = b"") -> Context:
    ids: dict[str, Any] = {"new_id": lambda: "own-id-0001", "new_secret": lambda: bytes(32), "random": int}
    ctx = Context(Settings(), False, **ids, clock=float, server_of=str)
    ctx.adopt(shards, complete)
    return ctx


def finish(op: Op[Any], answer: Answer) -> tuple[Any, list[list[Call]]]:
    """Run an operation to its end. Returns its result and the batches that it sent."""
    batches: list[list[Call]] = []
    try:
        calls = next(op)
        while True:
            batches.append(calls)
            calls = op.send([answer(call) for call in calls])
    except StopIteration as stop:
        return stop.value, batches


def core(login_at: int = NOW, secret: bytes = bytes(16)) -> bytes:
    return struct.pack(">QII16s4s4s", login_at, 1800, 86_400, secret, bytes(4), bytes(4))


def row(login_at: int = NOW, name: bytes | None = None) -> list[bytes | None]:
    return [str(login_at).encode(), core(login_at), name, *[None] * 10]


def test_an_operation_checks_its_arguments_when_it_is_called_and_needs_no_layout_for_that() -> None:
    ctx = context()
    ctx.cache.keyspace = None  # as before the first call of a client
    with pytest.raises(InvalidArgument, match=r"^reason must be text"):
        blocks.unblock(ctx, "ada", "sam@support", "")
    operation = blocks.unblock(ctx, "ada", "sam@support", "Verified by phone")
    ctx.adopt(1, b"")
    [call] = next(operation)
    assert call.script is UNBLOCK_USER


# -- decoders ---------------------------------------------------------------------------------------------------------


def test_a_validation_is_decoded_in_each_of_its_forms() -> None:
    assert VALIDATE.reply([UNKNOWN]).state == UNKNOWN
    live = VALIDATE.reply([LIVE, row(name=b"Ada"), 7])
    assert (live.state, live.row.name, live.row.end_reason, live.is_overdue) == (LIVE, b"Ada", None, False)
    assert VALIDATE.reply([ENDED, row(), [], 1]).is_overdue
    ended = VALIDATE.reply([ENDED, row(), [b"e", b"kicked", b"ea", NOW, b"en", b"note-id"]])
    assert (ended.row.end_reason, ended.row.at, ended.row.note) == (b"kicked", str(NOW).encode(), b"note-id")


def test_a_script_of_many_arguments_gets_them_by_name_in_its_own_order() -> None:
    given = {name: name for name in reversed(ROTATE_SECRET.args)}
    call = call_of(ROTATE_SECRET, ("{online:1:0}:sessions",), "further", **given)
    assert call.words[-len(given) - 1 :] == (*ROTATE_SECRET.args, "further")
    assert ROTATE_SECRET.args[:3] == ("given_now", "uid", "sid")
    with pytest.raises(AssertionError, match="sessions/rotate_secret has the arguments"):
        call_of(ROTATE_SECRET, ("{online:1:0}:sessions",), uid="ada")
    by_name = {name: name for name in reversed(KICK_SESSIONS.key_names)}
    assert KICK_SESSIONS.keys(**by_name) == KICK_SESSIONS.key_names == ("recorder", "note_key", "message_key")
    with pytest.raises(AssertionError, match="bulk_kick/kick_sessions has the keys"):
        KICK_SESSIONS.keys(recorder="recorder")


def test_a_login_is_decoded_in_each_of_its_forms() -> None:
    begun = LOGIN.reply([b"ok", b"7", core(), [b"a"], [b"b"], [b"h", None], b"\1", b"", 1, 3])
    row = SessionRow(b"7", core(), authentication=b"h", odd=b"\1", idp_end=b"")
    assert begun == LoginReply(row, ["a"], ["b"], True, 3)
    assert LOGIN.reply([b"limit"]) == RefusedReply("limit")
    assert LOGIN.reply([b"ended", 1]) == RefusedReply("ended", is_overdue=True)
    rule = LOGIN.reply([b"block_rule", b"network", b"Call us.", b""])
    assert rule == RefusedReply("block_rule", False, b"Call us.", b"", "network")
    assert LOGIN.reply([b"blocked", b"Call us.", b"9"]) == RefusedReply("blocked", False, b"Call us.", b"9")


def test_ends_heartbeats_and_reads_are_decoded() -> None:
    ended = END_SESSIONS.reply([[b"a"], [b"b"], [[*row()[:10], b"\1", None, None, None], []], [], NOW, NOW - 1])
    assert (ended.ended, ended.overdue, ended.row.login, ended.rows[1]) == (["a"], ["b"], NOW, NO_ROW)
    assert (ended.row.odd, ended.now, ended.newest) == (b"\1", NOW, NOW - 1)
    assert HEARTBEAT.reply([2, -3]) == [HeartbeatReply(1, False), HeartbeatReply(2, True)]
    found, labels = READ_SESSIONS.reply([[b"a", LIVE, row(), [], b"b", 3, [], []], [b"abcd", b"phone", b"efgh", None]])
    assert [(session.session_id, session.row.login) for session in found] == [("a", NOW), ("b", 0)]
    assert labels == {b"abcd": b"phone"}


def test_parts_of_lists_are_decoded() -> None:
    assert READ_PAGE.reply([NOW, 2, [b"b:2", b"2", b"a:1", b"1"], 1, []], 2).behind == (b"1", b"a:1")
    assert READ_PAGE.reply([NOW, 2, [b"b:2", b"2"], 1, []], 2).at_end
    assert WALK_SESSIONS.reply([NOW, 2, [], [b"a:1", b"1"], 500, 0])[4:7] == ((b"1", b"a:1"), 500, False)
    assert READ_NEWEST.reply([NOW, 3, [b"a", b"1"], b""]).entries == [(b"a", b"1")]
    assert COUNT_LIVE.reply([NOW, 5, 4, b"", [b"login", b"5"], 1])[1:] == (5, 4, b"", [(b"login", b"5")], True)


# -- cursors ----------------------------------------------------------------------------------------------------------


def test_a_cursor_is_valid_only_for_the_method_and_filter_that_it_was_made_for() -> None:
    cursor = cursors.make_cursor("jobs", ["ada"], 7, ["1.5", "a\udc80"])
    assert cursors.read_cursor(cursor, "jobs", ["ada"], is_zset_position) == (7, ["1.5", "a\udc80"])
    assert cursors.read_cursor(None, "jobs", ["ada"], is_zset_position) == (0, None)
    for call, question in (("ended", ["ada"]), ("jobs", ["bob"])):
        with pytest.raises(InvalidArgument, match=f"the next_cursor of {call}"):
            cursors.read_cursor(cursor, call, question, is_zset_position)


@pytest.mark.parametrize("cursor", [7, "", "x", "é", "A" * 70_000, cursors.encode("[" * 5_000), cursors.encode("7")])
def test_an_invalid_cursor_is_refused(cursor: object) -> None:
    for read in (
        lambda: cursors.read_cursor(cursor, "jobs", None, is_zset_position),
        lambda: list_sessions.Cursor.read(cursor, SessionFilter()),
        lambda: events.positions(cursor),
    ):
        with pytest.raises(InvalidArgument):
            read()


def test_a_cursor_of_the_list_keeps_any_ref_and_belongs_to_its_filter() -> None:
    asked = SessionFilter(device="phone")
    cursor = str(list_sessions.Cursor((NOW, "ada:\udcff"), asked.digest))
    at = list_sessions.Cursor.read(cursor, asked)
    assert at is not None
    assert at.position == (NOW, "ada:\udcff")
    with pytest.raises(InvalidArgument, match="for this filter"):
        list_sessions.Cursor.read(cursor, SessionFilter(device="desktop"))
    assert list_sessions.uid_of_cursor(cursor.encode()) == "ada"


# -- merging ----------------------------------------------------------------------------------------------------------


def pages(ctx: Context, logins: dict[int, list[int]]) -> Answer:
    """Answers to READ_PAGE: by shard, login times, newest first."""

    def answer(call: Call) -> Any:
        shard = next(s for s in ctx.keys.shards if s.sessions == call.key)
        size, behind = int(call.words[-4]), call.words[-3]
        left = [at for at in logins[shard.index] if behind == "" or at < int(behind)]
        flat = [part for at in left[:size] for part in (b"u:%d" % at, b"%d" % at)]
        return [NOW, len(logins[shard.index]), flat, 1, []]

    return answer


def test_the_shards_are_merged_in_order_and_only_those_without_refs_are_asked_again() -> None:
    ctx = context(4)
    logins = {0: list(range(4_000, 3_900, -1)), 1: [3_999, 1], 2: [], 3: [5_000]}
    merge = Merge(ctx, 50, None)
    found, batches = finish(merge.next(60), pages(ctx, logins))
    assert [at for at, _, _ in found] == sorted((at for some in logins.values() for at in some), reverse=True)[:60]
    assert (merge.total, merge.exact, len(batches[0])) == (103, True, 4)
    assert all({call.key for call in batch} == {ctx.keys.shards[0].sessions} for batch in batches[1:])


def test_entries_gathered_by_an_index_begin_after_the_position() -> None:
    shard = context().keys.shards[0]
    source = Gathered(NOW, 3, [(1, b"a:1", shard), (2, b"b:1", shard), (2, b"a:1", shard)], (2, "b:1"))
    found, _ = finish(source.next(9), lambda call: None)
    assert [entry[:2] for entry in found] == [(2, b"a:1"), (1, b"a:1")]


# -- lists by time ----------------------------------------------------------------------------------------------------


def newest(total: int) -> Answer:
    """Answers to READ_NEWEST of a list with times total … 1."""

    def answer(call: Call) -> Any:
        _, size, behind, *_ = call.words[4 + int(call.words[2]) - 1 :]
        first = min(total, int(float(behind)) - 1)
        times = range(first, max(0, first - int(size)), -1)
        return [NOW, total, [part for at in times for part in (b"m%d" % at, b"%d" % at)], b""]

    return answer


@pytest.mark.parametrize(("total", "keep", "shown", "scanned"), [(30, 1, 10, 11), (30, 3, 10, 30), (5, 1, 5, 5)])
def test_a_scan_ends_when_its_page_is_full_or_the_list_ends(total: int, keep: int, shown: int, scanned: int) -> None:
    ctx = context()
    s = ctx.keys.shards[0]

    def look(found: list[Entry]) -> Op[list[int | None]]:
        yield from ()
        times = [int(entry.score) for entry in found]
        return [at if at % keep == 0 else None for at in times]

    merge = MergedLists(ctx, [ZsetPart(s, s.blocks, None, None, None)], 10)
    walked, _ = finish(scan(merge, 10, 1, look), newest(total))
    assert len(walked.items) == shown
    assert (walked.behind is None) == (walked.scanned == total)
    assert walked.scanned >= min(scanned, shown)


def test_a_scan_without_matches_stops_at_its_work_limit() -> None:
    ctx = context()
    s = ctx.keys.shards[0]

    def look(found: list[Entry]) -> Op[list[int | None]]:
        yield from ()
        return [None] * len(found)

    merge = MergedLists(ctx, [ZsetPart(s, s.blocks, None, None, None)], 10)
    walked, _ = finish(scan(merge, 10, 200, look), newest(10 * LOOK_AT))
    assert (walked.items, walked.scanned) == ([], LOOK_AT)
    assert walked.behind is not None


# -- the planner ------------------------------------------------------------------------------------------------------


def counted(
    listed: int, sizes: list[int], facets: list[bytes] | None = None, exactness: int = 1, known_users: int = 0
) -> Answer:
    """Answers to COUNT_CANDIDATES, and label texts. Without known_users each user has one session."""

    def answer(call: Call) -> Any:
        if call.script is COUNT_CANDIDATES:
            return [NOW, listed, listed, listed, exactness, sizes, facets or [], b"-", known_users or listed]
        return [b"phone\nweb\n1" for _ in call.words[2:]]

    return answer


def plan(asked: SessionFilter, answer: Answer, need: int | None = 51) -> planner.Route:
    route: planner.Route = finish(planner.plan(context(1, INDEXES), asked, need), answer)[0]
    return route


def test_a_rare_name_is_read_from_the_index_and_a_frequent_one_by_a_scan() -> None:
    rare = plan(SessionFilter(name_prefix="ada"), counted(100_000, [12]))
    assert rare.ranges is not None
    assert [item.range.kind for item in rare.ranges] == ["words"]
    assert plan(SessionFilter(name_prefix="a"), counted(100_000, [90_000])).ranges is None
    assert plan(SessionFilter(name_prefix="a"), counted(10_000_000, [planner.MAX_GATHERED + 1]), None).ranges is None


def test_of_a_frequent_word_the_users_are_read_and_the_list_is_scanned_for_them() -> None:
    for asked, sizes in (
        (SessionFilter(text="okafor"), [0, 9_000, 0]),
        (SessionFilter(name_prefix="okafor", device="phone"), [9_000]),
    ):
        route = plan(asked, counted(1_000_000, sizes, [b"cabcd", b"200000"]))
        assert (route.scans_users, route.plan.rows, route.plan.tests) == (True, 9_000, asked.given)
        assert not route.total_is_exact
    assert not plan(SessionFilter(text="okafor"), counted(1_000_000, [0, 100, 0])).scans_users
    long = SessionFilter(text="christopher")  # which may be a session id, or the start of one
    assert plan(long, counted(1_000_000, [0, 9_000, 0, 0, 0])).scans_users
    assert not plan(long, counted(1_000_000, [0, 9_000, 0, 1, 0])).scans_users
    assert not plan(SessionFilter(text="192.0.2."), counted(1_000_000, [0, 0, 0, 9_000])).scans_users


def test_a_shard_without_entries_is_not_read() -> None:
    ctx = context(4, INDEXES)
    sizes = iter([[0], [3], [0], [0]])
    answer = lambda call: [NOW, 1_000, 1_000, 1_000, 1, next(sizes), [], b"-", 1_000]  # noqa: E731
    route, _ = finish(planner.plan(ctx, SessionFilter(name_prefix="ada"), 51), answer)
    assert [item.shard.index for item in route.ranges] == [1]


def test_an_address_index_needs_no_test_of_the_address() -> None:
    route = plan(SessionFilter(ip="192.0.2.0/24", idle_for=60), counted(100_000, [5]))
    assert [list(words) for words in route.tests.values()] == [["idle", 60_000]]


def test_a_part_of_a_name_can_be_searched_in_two_ways() -> None:
    route = plan(SessionFilter(name_contains="ove"), counted(100_000, []))
    assert route.ranges is None
    assert route.fallback is not None
    assert route.fallback.ranges is not None
    assert [item.range.pieces for item in route.fallback.ranges] == [("ove",)]


def test_text_uses_its_index_only_if_all_needed_indexes_are_complete() -> None:
    asked = SessionFilter(text="192.0.2.7")
    assert [item.kind for item in planner.ranges_of(["uid", "name", "alias", "ip"], asked)["text"]] == [
        "words", "words", "words", "addresses"
    ]  # fmt: skip
    assert "text" not in planner.ranges_of(["uid", "name", "alias"], asked)


def test_words_in_any_order_are_read_by_entries_that_begin_with_one_and_contain_the_others() -> None:
    ranges = planner.ranges_of(["uid", "name", "alias"], SessionFilter(text="Wekesa, Amina"))["text"]
    assert [(item.low[1:2], item.low[2:], item.pieces) for item in ranges] == [
        (b"u", b"wekesaamina", ()), (b"n", b"wekesaamina", ()), (b"a", b"wekesaamina", ()),
        (b"n", b"wekesa", ("amina",)), (b"n", b"amina", ("wekesa",)),
    ]  # fmt: skip


def test_the_words_of_a_filter_match_as_seldom_as_all_of_them_together() -> None:
    ctx = context(1, INDEXES)
    sizes = [0, 0, 0, 1_000, 2_000]
    route, _ = finish(planner.plan(ctx, SessionFilter(text="wekesa amina"), 51), counted(100_000, sizes))
    assert (route.plan.index, route.plan.rows, route.plan.matches) == ("text", 1_000, 20)
    assert [item.range.low for item in route.ranges] == [b"[nwekesa"], "only the entries of the rarer word are read"


@pytest.mark.parametrize(
    ("typed", "sizes", "read"),
    [
        ("hopper grace", (2_000, 1_000), [b"grace"]),
        ("grace hopper", (2_000, 1_000), [b"hopper"]),
        ("hopper grace brewster", (2_000, 500, 1_000), [b"grace"]),
        ("hopper zzyzx", (2_000, 0), []),
        # "Mari Adams" begins with maria and with adams: the entry of adams does not show it
        ("maria adams", (2_000, 1_000), [b"maria"]),
        ("nan ana", (2_000, 1_000), [b"nan", b"ana"]),
        ("ann anna", (2_000, 1_000), [b"anna"]),
    ],
)
def test_of_several_words_the_entries_of_the_rarest_are_read(
    typed: str, sizes: tuple[int, ...], read: list[bytes]
) -> None:
    route = plan(SessionFilter(text=typed), counted(100_000, [0, 0, 0, *sizes]))
    assert [item.range.low[2:] for item in route.ranges or []] == read


def test_entries_of_users_who_are_offline_count_for_no_session() -> None:
    route = plan(SessionFilter(text="example"), counted(1_000, [0, 300, 0], known_users=4_000))
    assert (route.plan.rows, route.plan.matches) == (300, 75)
    route = plan(SessionFilter(ip="192.0.2.0/24"), counted(1_000, [300], known_users=4_000))
    assert route.plan.matches == 300, "an entry of the index of addresses is a session"


def test_a_text_of_a_session_id_also_reads_the_index_of_session_ids() -> None:
    ranges = planner.ranges_of(["uid", "name", "alias"], SessionFilter(text=" own-id-0001 "))["text"]
    assert [(item.kind, item.high) for item in ranges][-2:] == [("ids", b"own-id-0001"), ("ids", b"own-id-0001*")]
    assert "text" not in planner.ranges_of(["name", "alias"], SessionFilter(text="own-id-0001"))


def test_a_plan_names_the_indexes_that_a_rebuild_has_to_complete() -> None:
    ctx = context(1, INDEXES)
    answer = lambda call: [NOW, 9, 9, 9, 1, [0, 0, 0], [], b"uid,name,alias,ip.2", 9]  # noqa: E731  as fold 1 wrote it
    route, _ = finish(planner.plan(ctx, SessionFilter(text="ada"), 51), answer)
    assert (route.plan.index, route.plan.incomplete) == ("list", ("uid", "name", "alias"))
    assert ctx.cache.complete == {"ip"}


@pytest.mark.parametrize(("exactness", "exact"), [(1, True), (2, True), (0, False)])
def test_the_total_at_a_time_is_exact_unless_too_many_sessions_wait_for_a_sweep(exactness: int, exact: bool) -> None:
    route = plan(SessionFilter(logged_in_after=1.0), counted(70, [], exactness=exactness))
    assert (route.total, route.total_is_exact) == (70, exact)


@pytest.mark.parametrize(("wrong", "empty"), [(0, True), (1, False)])
def test_facets_are_trusted_only_if_they_count_every_session(wrong: int, empty: bool) -> None:
    facets = [b"cabcd", b"%d" % (70 + wrong)]
    matching = plan(SessionFilter(device="phone"), counted(70, [], facets))
    assert (matching.total, matching.total_is_exact) == (70, empty)
    assert plan(SessionFilter(device="desktop"), counted(70, [], facets)).is_empty is empty


# -- the index, events, logins ----------------------------------------------------------------------------------------


def test_entries_without_a_session_or_known_person_are_stale() -> None:
    indexes = frozenset(("uid", "name", "alias"))
    of = {name: entries(indexes, "u1", name, "") for name in ("Ada", "Bob", "Eve")}
    found = list(dict.fromkeys(entry for some in of.values() for entry in some))
    user = IndexedUser("u1", True, None, Names(b"Bob"), {"own-id-0001": Names(b"Ada")})
    stale, backed = stale_words(indexes, user, found)
    assert stale == [entry for entry in of["Eve"] if entry[:1] == b"n"]
    assert set(backed) == {*of["Ada"], *of["Bob"]}
    gone = IndexedUser("u1", False, None, Names(b"Bob"), {})
    assert stale_words(indexes, gone, found) == (found, [])


def test_events_of_shards_are_merged_and_a_gap_comes_first() -> None:
    entry = [b"k", b"login", b"r", b"ada:own-id-0001", b"a", b"5"]
    parts = [
        READ_EVENTS.reply([0, b"9-0", [b"7-1", entry, b"9-0", entry]]),
        READ_EVENTS.reply([1, b"8-0", [b"8-0", entry]]),
    ]
    found = events.merge_events(parts, ["6-0", "1-0"], 3)
    assert [event.kind for event in found] == ["gap", "login", "login"]
    assert [events.positions(event.cursor) for event in found] == [
        [(6, 0), (-1, -1)], [(7, 1), (-1, -1)], [(7, 1), (8, 0)]
    ]  # fmt: skip


def test_validate_reads_a_row_that_names_no_new_label_in_one_round_trip() -> None:
    token = validate.make_token("ada", "own-id-0001", bytes(32))
    seen, batches = finish(validate.validate(context(), token, True, None), lambda call: [LIVE, row(name=b"Ada"), 7])
    assert bool(seen)
    assert seen.session.name == "Ada"
    assert len(batches) == 1


def test_a_refused_login_is_tried_again_only_where_a_stale_entry_was_found() -> None:
    def answer(call: Call) -> Any:
        if call.script is not None and call.script.name == "sessions/login":
            return [b"limit"]
        if call.script is not None and call.script.name == "sessions/begin_sessions":
            return b""
        return [[b"own-id-0002", LIVE, row(), []], []]

    op = login.login(context(), {"uid": "ada"})
    with pytest.raises(LoginRefused) as refused:
        finish(op, answer)
    assert refused.value.code == "limit"


def test_logins_that_were_made_are_not_denied_if_redis_goes_away_before_the_others_are_decided() -> None:
    begun = struct.pack(">4Q", NOW, NOW, 0, 0)
    for reply, error in ((begun, OutcomeUnknown), (b"", Unavailable)):
        op = login.login_many(context(), [{"uid": "ada"}, {"uid": "bob"}], False)
        [begin] = next(op)
        assert begin.script is BEGIN_SESSIONS
        decisions = op.send([reply])
        assert [call.script for call in decisions] == [LOGIN] * (1 if reply else 2)
        with pytest.raises(Unavailable) as raised:
            op.throw(Unavailable("Redis is away."))
        assert type(raised.value) is error


def test_the_text_of_a_cursor_does_not_change_so_stored_ones_stay_valid() -> None:
    assert str(list_sessions.Cursor((5, "ada:own-id-0001"))) == cursors.encode(json.dumps([5, "ada:own-id-0001"]))


# -- block rules ------------------------------------------------------------------------------------------------------


def _shards(versions: list[int], rules: list[bytes], stored: list[int]) -> Answer:
    """Answers as shards with these versions and, on each, these rules; a write is answered from ``stored``."""
    flat = [part for rule in rules for part in (rule, b"{}")]

    def answer(call: Call) -> Any:
        words = list(call.words)
        shard = int(call.key.partition("}")[0].rpartition(":")[2]) if call.key.endswith(":block_rules") else 0
        if words[0] == "HGET":
            return b"%d" % versions[1] if versions[1] else None
        if words[0] == "EVALSHA_RO":
            return [NOW, b"%d" % versions[shard and 1], flat]
        return stored.pop(0)

    return answer


def test_a_change_of_rules_is_made_on_the_first_shard_and_then_copied() -> None:
    op = block_rules.remove_block_rule(context(2), "no-such-rule", "staff", "test")
    removed, batches = finish(op, _shards([5, 5], [b"4/24:abc"], [1, 1]))
    assert not removed
    read, change, copies = batches
    assert len(read) == 2
    [changed], [copied] = [list(call.words) for call in change], [list(call.words) for call in copies]
    assert changed[1] == copied[1] == STORE_BLOCK_RULES.sha
    assert changed[9:12] == [NOW, 5, b"4/24"], "version, base and lookup"
    assert copied[9:12] == [NOW, "", b"4/24"], "a copy has no base"
    assert changed[-2:] == copied[-2:] == [b"4/24:abc", b"{}"]


def test_a_change_that_another_one_came_before_is_read_and_made_again() -> None:
    op = block_rules.remove_block_rule(context(1), "no-such-rule", "staff", "test")
    _, batches = finish(op, _shards([5, 5], [], [0, 0, 1]))
    assert len(batches) == 6
    op = block_rules.remove_block_rule(context(1), "no-such-rule", "staff", "test")
    with pytest.raises(Unavailable, match="Other staff change block rules"):
        finish(op, _shards([5, 5], [], [0] * 100))


def test_the_narrowest_network_comes_first_in_the_lookup_and_apps_last() -> None:
    rules = dict.fromkeys((b"app:ios\n1", b"4/8:a", b"6/48:abcdef", b"4/32:abcd", b"country:NL"), b"{}")
    ctx = context()
    call = store_rules_call(ctx, ctx.keys.shards[0], NOW, rules, base=None, audit=None)
    assert list(call.words)[11] == b"6/48 4/32 4/8 app country"
