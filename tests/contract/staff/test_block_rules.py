"""Rules that refuse logins from a network or with a version of an app: matched exactly, and on every shard at once."""

from __future__ import annotations

import ipaddress
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from presence_core import BlockRule, InvalidArgument, LoginRefused, OutcomeUnknown, Unavailable
from presence_core.operations.staff import block_rules as operations
from presence_core.operations.staff import rule_storage
from presence_core.operations.staff.rule_storage import rules_calls
from presence_core.scripts.calls import Call
from presence_core.scripts.staff import STORE_BLOCK_RULES
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.place_file import write_place_file
from tests.support.soak import size

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "credential stuffing, see INC-7"}
NETWORK = "198.51.100.0/24"


def _passes(p: P, uid: str = "ada", **login: Any) -> bool:
    [answer] = p.login_many([{"uid": uid, **login}])
    return not isinstance(answer, LoginRefused)


def _users_of_all_shards(p: P) -> list[str]:
    """A uid of each shard."""
    found: dict[int, str] = {}
    for number in range(100_000):
        found.setdefault(p.context.shard(f"u{number}").index, f"u{number}")
        if len(found) == len(p.context.keys.shards):
            return list(found.values())
    raise AssertionError


# -- who is refused ---------------------------------------------------------------------------------------------------


@every_topology
def test_a_login_from_the_country_is_refused_and_any_other_passes(bed: Bed, tmp_path: Path) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    p.login("ada", ip="203.0.113.7")
    users = _users_of_all_shards(p)[:4]
    preview = p.preview_block_rule(country="jp")
    assert (preview.kind, preview.words, preview.sessions, preview.is_wide) == ("country", "JP", 1, True)
    rule = p.add_block_rule(country="jp", **BY, expected=1, confirm_wide="JP")
    assert (rule.kind, rule.country, rule.network, rule.words, rule.sessions) == ("country", "JP", None, "JP", 1)
    assert p.block_rules() == [rule]
    with pytest.raises(LoginRefused, match="You cannot sign in from your country at the moment"):
        p.login("ada", ip="203.0.113.8")
    for uid in users:
        assert not _passes(p, uid, ip="203.0.113.9")
        for ip in ("192.0.2.7", "10.0.0.1", None):
            assert _passes(p, uid, ip=ip)
    assert _passes(bed.connect(), ip="203.0.113.9"), "without a file no place is known"
    assert p.remove_block_rule(rule.id, by="sue", reason="over")
    assert p.audit().items[0].outcome.startswith("JP no longer blocked")
    assert _passes(p, ip="203.0.113.9")


@every_backend
def test_a_login_from_the_network_is_refused_and_any_other_passes(p: P) -> None:
    now = p.freeze()
    live = p.login("ada", ip="198.51.100.7")
    rule = p.add_block_rule(network="198.51.100.7/24", **BY, expected=1, message="Call us.", ticket="T-1", duration=60)
    assert (rule.kind, rule.network, rule.sessions, rule.everywhere) == ("network", NETWORK, 1, True)
    assert (round(rule.at.timestamp() * 1000), rule.message, rule.ticket) == (now, "Call us.", "T-1")
    assert p.block_rules() == [rule]
    with pytest.raises(LoginRefused) as refused:
        p.login("ada", ip="198.51.100.255")
    assert (refused.value.code, refused.value.message, refused.value.until) == ("block_rule", "Call us.", rule.until)
    assert refused.value.sentence.startswith("Call us. Signing in is blocked until ")
    assert not any(secret in refused.value.sentence for secret in (*BY.values(), "T-1", NETWORK))
    assert not _passes(p, ip="::ffff:198.51.100.3"), "an IPv4 address in an IPv6 coat"
    assert _passes(p, ip="198.51.101.0")
    assert _passes(p, ip="::c633:6403")
    assert _passes(p), "an unknown address passes"
    assert p.validate(live.token), "live sessions go on"
    assert p.heartbeat("ada", live.session.session_id)


@every_backend
def test_a_version_of_an_app_is_refused_and_only_that(p: P) -> None:
    client: dict[str, Any] = {"app": "ios", "app_version": "4.2.0"}
    p.add_block_rule(**client, **BY, expected=0)
    with pytest.raises(LoginRefused) as refused:
        p.login("ada", device="iPhone", **client)
    assert (refused.value.code, refused.value.message, refused.value.until) == ("block_rule", None, None)
    assert refused.value.sentence == "You cannot sign in with this version of the app at the moment."
    for other in ({"app": "ios", "app_version": "4.2"}, {"app": "android", "app_version": "4.2.0"},
                  {"device": "ios", "app": "4.2.0"}, {"app_version": "4.2.0"}, {"app": "ios"}, {}):  # fmt: skip
        assert _passes(p, **other)


def test_an_import_is_refused_like_any_login(p: P) -> None:
    p.add_block_rule(network=NETWORK, **BY, expected=0)
    rows: list[dict[str, Any]] = [
        {"uid": "ada", "ip": "198.51.100.7", "login_at": p.freeze() / 1000 - 60},
        {"uid": "bob"},
    ]
    refused, login = p.login_many(rows, imported=True)
    assert isinstance(refused, LoginRefused)
    assert not isinstance(login, LoginRefused)


def test_a_rule_ends_at_its_time_and_a_sweep_removes_it(p: P, bed: Bed) -> None:
    p.freeze()
    p.add_block_rule(network=NETWORK, **BY, expected=0, duration=60)
    p.advance(59.999)
    assert not _passes(p, ip="198.51.100.7")
    p.advance(0.001)
    assert p.block_rules() == []
    assert _passes(p, ip="198.51.100.7")
    p.sweep()
    assert "block_rules" not in bed.families()


def test_the_visitor_gets_the_message_of_the_narrowest_rule(p: P) -> None:
    p.add_block_rule(network="198.51.0.0/16", **BY, expected=0, message="wide")
    p.add_block_rule(network="198.51.100.7", **BY, expected=0, message="narrow", duration=60)
    p.add_block_rule(app="ios", app_version="1", **BY, expected=0, message="app")
    with pytest.raises(LoginRefused, match="narrow"):
        p.login("ada", ip="198.51.100.7", app="ios", app_version="1")
    p.advance(60)
    with pytest.raises(LoginRefused, match="wide"):
        p.login("ada", ip="198.51.100.7", app="ios", app_version="1")


@on("valkey-sync", "redis7-async")
def test_every_network_matches_exactly_the_addresses_that_python_says(bed: Bed) -> None:
    p, rng = bed.connect(), random.Random(7)
    for _ in range(size(12, 300)):
        networks = [_network(rng) for _ in range(rng.randint(1, 4))]
        for network in networks:
            p.add_block_rule(network=str(network), confirm_wide=_wide(network), **BY, expected=10_000)
        addresses = [address for network in networks for address in _near(rng, network)]
        answers = p.login_many([{"uid": "ada", "ip": str(address)} for address in addresses])
        for address, answer in zip(addresses, answers, strict=True):
            matches = any(address.version == network.version and address in network for network in networks)
            assert isinstance(answer, LoginRefused) == matches, (str(address), networks)
        for rule in p.block_rules():
            assert p.remove_block_rule(rule.id, **BY)
        p.kick("ada", **BY)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(rng: random.Random) -> Network:
    if rng.random() < 0.5:
        return ipaddress.IPv4Network((rng.getrandbits(32), rng.randint(0, 32)), strict=False)
    return ipaddress.IPv6Network((rng.getrandbits(125) | 1 << 125, rng.randint(0, 128)), strict=False)


def _wide(network: Network) -> str | None:
    return str(network) if network.prefixlen < (16 if network.version == 4 else 32) else None


def _near(rng: random.Random, network: Network) -> list[Any]:
    """Both ends, their neighbours outside, one inside, and the address with one bit of the prefix turned."""
    kind = ipaddress.IPv4Address if network.version == 4 else ipaddress.IPv6Address
    first, last, most = int(network[0]), int(network[-1]), network.max_prefixlen
    numbers = {first, last, first - 1, last + 1, rng.randint(first, last), first ^ 1 << rng.randrange(most)}
    numbers = {number for number in numbers if 0 <= number < 1 << most}
    return [kind(number) for number in numbers if most == 32 or number >> 32 not in (0, 0xFFFF)]


# -- preview, limits, and the lifetime of a rule ----------------------------------------------------------------------


@every_backend
def test_a_preview_counts_people_and_sessions_and_changes_nothing(p: P, bed: Bed) -> None:
    for uid, ip in (("ada", "198.51.100.1"), ("ada", "198.51.100.2"), ("bob", "198.51.100.3"), ("eve", "192.0.2.1")):
        p.login(uid, ip=ip, app="ios", app_version="4")
    before = bed.dump()
    found = p.preview_block_rule(network="198.51.100.9/24")
    assert (found.kind, found.network, found.sessions, found.people, found.people_is_exact, found.is_wide) == (
        "network", NETWORK, 3, 2, True, False,
    )  # fmt: skip
    found = p.preview_block_rule(app="ios", app_version="4")
    assert (found.kind, found.app, found.app_version, found.sessions, found.people) == ("app_version", "ios", "4", 4, 3)
    assert bed.dump() == before


def test_of_many_sessions_a_preview_counts_people_among_the_newest(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MAX_READ", 10)
    monkeypatch.setattr(operations, "_PAGE", 5)
    p.login_many({"uid": f"u{number}", "ip": "198.51.100.1"} for number in range(30))
    found = p.preview_block_rule(network=NETWORK)
    assert (found.sessions, found.people, found.people_is_exact) == (30, 10, False)


def test_a_rule_that_would_concern_more_than_the_preview_said_is_refused(p: P) -> None:
    p.login("ada", ip="198.51.100.1")
    expected = p.preview_block_rule(network=NETWORK).sessions
    p.login("bob", ip="198.51.100.2")
    with pytest.raises(InvalidArgument, match="expected must be at least 2: that many sessions match now, and 1 were"):
        p.add_block_rule(network=NETWORK, **BY, expected=expected)
    with pytest.raises(InvalidArgument, match="until must lie in the future"):
        p.add_block_rule(network=NETWORK, **BY, expected=9, until=p.freeze() / 1000)
    assert p.block_rules() == []
    assert _passes(p, ip="198.51.100.1")
    assert p.add_block_rule(network=NETWORK, **BY, expected=10).sessions == 3, "fewer than expected is fine"


@pytest.mark.parametrize(
    ("network", "typed"),
    [("0.0.0.0/0", "0.0.0.0/0"), ("10.0.0.0/15", "10.0.0.0/15"), ("2001:db8::/31", "2001:db8::/31"), ("::/0", "::/0"),
     ("::ffff:0:0/96", "0.0.0.0/0")],
)  # fmt: skip
def test_a_wide_network_must_be_typed_again(p: P, network: str, typed: str) -> None:
    assert p.preview_block_rule(network=network).is_wide
    for wrong in (None, True, "", network + " ", "0.0.0.0"):
        with pytest.raises(InvalidArgument, match="confirm_wide must be"):
            p.add_block_rule(network=network, **BY, expected=0, confirm_wide=wrong)  # type: ignore[arg-type]
    assert p.block_rules() == []
    assert p.add_block_rule(network=network, **BY, expected=0, confirm_wide=typed).network == typed
    assert not _passes(p, ip="10.1.2.3" if "." in typed else "2001:db8::1")


def test_a_network_up_to_one_providers_size_needs_no_confirmation(p: P) -> None:
    for network in ("10.0.0.0/16", "2001:db8::/32"):
        assert not p.preview_block_rule(network=network).is_wide
        p.add_block_rule(network=network, **BY, expected=0)


@every_backend
def test_a_rule_that_is_removed_lets_logins_in_again_and_both_are_audited(p: P) -> None:
    p.login("ada", ip="198.51.100.1")
    rule = p.add_block_rule(network=NETWORK, **BY, expected=1, message="Call us.", ticket="T-1")
    assert p.remove_block_rule(rule.id, by="Ada L.", reason="over")
    assert p.block_rules() == []
    assert _passes(p, ip="198.51.100.7")
    assert not p.remove_block_rule(rule.id, by="Ada L.", reason="again")
    kept = [(entry.action, entry.by, entry.reason, entry.message, entry.ticket, entry.outcome) for entry in p.audit()]
    assert kept == [
        ("remove_block_rule", "Ada L.", "again", None, None, f"no rule {rule.id}"),
        ("remove_block_rule", "Ada L.", "over", None, None,
         f"{NETWORK} no longer blocked (rule {rule.id}, by Grace Hopper)"),
        ("add_block_rule", "Grace Hopper", BY["reason"], "Call us.", "T-1",
         f"{NETWORK} blocked until removed (rule {rule.id}); 1 live session matched"),
    ]  # fmt: skip


def test_adding_again_replaces_the_texts_and_ends_no_rule_sooner(p: P) -> None:
    first = p.add_block_rule(network=NETWORK, **BY, expected=0, duration=600, message="one")
    with pytest.raises(InvalidArgument, match="until must not be before the end of the rule that exists"):
        p.add_block_rule(network="198.51.100.9/24", **BY, expected=0, duration=60)
    second = p.add_block_rule(network=NETWORK, by="sam", reason="more", expected=0, message="two")
    assert (second.id, second.until) == (first.id, None)
    assert p.block_rules() == [second]
    with pytest.raises(InvalidArgument, match="until must not be before"):
        p.add_block_rule(network=NETWORK, **BY, expected=0, duration=600)


def test_there_are_at_most_a_hundred_rules_and_an_ended_rule_is_replaced(p: P) -> None:
    p.freeze()
    for number in range(operations.MAX_RULES):
        p.add_block_rule(network=f"203.0.{number}.0/24", **BY, expected=0, duration=60 + number)
    with pytest.raises(InvalidArgument, match="network has no room: limit of 100 block rules"):
        p.add_block_rule(network=NETWORK, **BY, expected=0)
    assert len(p.block_rules()) == 100
    assert not _passes(p, ip="203.0.99.1")
    p.add_block_rule(network="203.0.7.0/24", **BY, expected=0)  # one that exists may change
    p.advance(60)
    p.add_block_rule(network=NETWORK, **BY, expected=0)


# -- every shard ------------------------------------------------------------------------------------------------------


@every_topology
def test_a_rule_is_on_every_shard_when_the_call_returns_and_is_gone_from_all_when_removed(bed: Bed) -> None:
    p, site = bed.connect(shards=None if bed.is_cluster else 4), bed.connect()
    p.counts()
    users = _users_of_all_shards(p)
    rule = p.add_block_rule(network=NETWORK, **BY, expected=0)
    assert [_passes(site, uid, ip="198.51.100.7") for uid in users] == [False] * len(users)
    assert p.remove_block_rule(rule.id, **BY)
    assert [_passes(site, uid, ip="198.51.100.7") for uid in users] == [True] * len(users)
    assert "block_rules" not in bed.families()


class _Crashed(BaseException):
    """The process dies here."""


def _crash_between_the_shards(p: P, monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    def die(*_: Any) -> list[Call]:
        raise _Crashed

    with monkeypatch.context() as patch:
        patch.setattr(rule_storage, "rules_calls", die)
        with pytest.raises(_Crashed):
            act()


@pytest.mark.parametrize("completes", ["a sweep", "a list", "the next change"])
def test_a_change_that_a_crash_left_on_one_shard_is_completed(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, completes: str
) -> None:
    p = bed.connect(shards=4)
    p.counts()
    users = _users_of_all_shards(p)
    finish: dict[str, Any] = {"a sweep": p.sweep, "a list": p.block_rules,
              "the next change": lambda: p.add_block_rule(app="ios", app_version="1", **BY, expected=0)}  # fmt: skip
    _crash_between_the_shards(p, monkeypatch, lambda: p.add_block_rule(network=NETWORK, **BY, expected=0))
    assert sum(_passes(p, uid, ip="198.51.100.7") for uid in users) == 3
    [half] = bed.connect(heal=False).block_rules()
    assert not half.everywhere, "it is seen to be on some shards only"
    finish[completes]()
    assert not any(_passes(p, uid, ip="198.51.100.7") for uid in users)
    assert all(rule.everywhere for rule in bed.connect(heal=False).block_rules())
    _crash_between_the_shards(p, monkeypatch, lambda: p.remove_block_rule(half.id, **BY))
    assert sum(_passes(p, uid, ip="198.51.100.7") for uid in users) == 1
    finish[completes]()
    assert all(_passes(p, uid, ip="198.51.100.7") for uid in users)


def test_a_change_that_reached_only_some_shards_raises_outcome_unknown(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = bed.connect(shards=4)
    p.counts()

    def lose(*args: Any) -> list[Call]:
        for call in rules_calls(*args):
            call.wire = ("EVALSHA", STORE_BLOCK_RULES.sha, "0")  # as if a server were away
        raise Unavailable("Redis is away.", "host:1")

    with monkeypatch.context() as patch:
        patch.setattr(rule_storage, "rules_calls", lose)
        with pytest.raises(OutcomeUnknown, match="The change is not on every shard yet: a sweep completes it"):
            p.add_block_rule(network=NETWORK, **BY, expected=0)
    assert p.add_block_rule(network=NETWORK, **BY, expected=0).everywhere, "called again, it is made whole"
    assert not any(_passes(p, uid, ip="198.51.100.7") for uid in _users_of_all_shards(p))


def test_what_a_failover_took_from_the_first_shard_comes_back_from_the_others(bed: Bed, raw: Any) -> None:
    p = bed.connect(shards=4)
    p.add_block_rule(network=NETWORK, **BY, expected=0)
    first = p.context.keys.shards[0]
    raw.delete(first.block_rules)
    raw.hdel(first.meta, "rules", "rules_version")
    p.add_block_rule(app="ios", app_version="1", **BY, expected=0)
    assert {rule.words for rule in p.block_rules()} == {NETWORK, "ios 1"}
    assert not any(_passes(p, uid, ip="198.51.100.7") for uid in _users_of_all_shards(p))


def test_a_copy_that_arrives_late_undoes_no_newer_change(bed: Bed) -> None:
    p = bed.connect(shards=2)
    p.add_block_rule(network=NETWORK, **BY, expected=0)
    ctx = p.context
    stored = p.internal.run(rule_storage.read_rules(ctx))
    p.add_block_rule(app="ios", app_version="1", **BY, expected=0)

    def copy_late() -> Any:
        return (yield rules_calls(ctx, ctx.keys.shards, stored.version, stored.rules))

    assert p.internal.run(copy_late()) == [0, 0]
    assert len(p.block_rules()) == 2


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_changes_at_the_same_time_are_all_made(bed: Bed) -> None:
    clients = [bed.connect() for _ in range(3)]
    errors: list[BaseException] = []

    def add(number: int, p: P) -> None:
        try:
            for part in range(4):
                p.add_block_rule(network=f"203.0.{10 * number + part}.0/24", **BY, expected=0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=add, args=each) for each in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    rules = clients[0].block_rules()
    assert len(rules) == 12
    assert all(rule.everywhere for rule in rules)


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_once_the_call_has_returned_no_login_passes_however_many_run(bed: Bed) -> None:
    staff, sites = bed.connect(), [bed.connect() for _ in range(3)]
    changes, late, stop = [0], [], threading.Event()  # after an odd number of changes the rule is there

    def log_in(number: int, p: P) -> None:
        count = 0
        while not stop.is_set():
            count += 1
            before = changes[0]
            if _passes(p, f"u{number}-{count % 50}", ip="198.51.100.7") and before % 2 and changes[0] == before:
                late.append(count)

    threads = [threading.Thread(target=log_in, args=each) for each in enumerate(sites)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(size(3, 50)):
            rule = staff.add_block_rule(network=NETWORK, **BY, expected=10_000)
            changes[0] += 1
            for number in range(20):
                assert not _passes(staff, f"s{number}", ip="198.51.100.8")
            changes[0] += 1
            staff.remove_block_rule(rule.id, **BY)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert late == []


# -- what others do to it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"5", b"[]", b"{", b'{"until":null}', b'{"until":"x","message":7}'])
def test_a_value_of_another_program_refuses_and_breaks_nothing(p: P, raw: Any, value: bytes) -> None:
    p.add_block_rule(network=NETWORK, **BY, expected=0)
    [field] = raw.hkeys(p.context.shard("ada").block_rules)
    for shard in p.context.keys.shards:
        raw.hset(shard.block_rules, field, value)
    with pytest.raises(LoginRefused) as refused:
        p.login("ada", ip="198.51.100.7")
    assert (refused.value.code, refused.value.message, refused.value.until) == ("block_rule", None, None)
    assert p.block_rules() == []
    p.sweep()


def test_a_rule_of_a_kind_that_a_newer_version_knows_survives_a_change(p: P, raw: Any) -> None:
    p.add_block_rule(network=NETWORK, **BY, expected=0)
    for shard in p.context.keys.shards:
        raw.hset(shard.block_rules, "country:NL", '{"kind":"country","id":"5"}')
    p.add_block_rule(app="ios", app_version="1", **BY, expected=0)
    assert raw.hget(p.context.shard("ada").block_rules, "country:NL")
    assert len(p.block_rules()) == 2
    assert not _passes(p, ip="198.51.100.7")


@on("valkey-sync", "cluster-sync")
def test_rules_come_along_to_another_number_of_shards(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("presence_core.client.reshard.KEEP_OLD_KEYS_SECONDS", 0.0)
    p = bed.connect(shards=2)
    p.add_block_rule(network=NETWORK, **BY, expected=0)
    _crash_between_the_shards(p, monkeypatch, lambda: p.add_block_rule(network="203.0.113.9", **BY, expected=0))
    before = p.block_rules() if not bed.is_cluster else None
    p.reshard(4)
    rules = bed.connect(heal=False).block_rules()
    assert {rule.words for rule in rules} == {NETWORK, "203.0.113.9/32"}
    assert all(rule.everywhere for rule in rules)
    assert before in (None, rules)
    for uid in _users_of_all_shards(p):
        assert not _passes(p, uid, ip="198.51.100.7")
        assert not _passes(p, uid, ip="203.0.113.9")
        assert _passes(p, uid, ip="203.0.113.8")


def test_erasing_a_person_takes_them_out_of_the_texts_of_rules(p: P) -> None:
    p.login("ada.lovelace", name="Ada Lovelace", ip="198.51.100.7")
    said: dict[str, Any] = {
        "by": "ada.lovelace",
        "reason": "asked by Ada Lovelace",
        "message": "Ada Lovelace, call us.",
    }
    rule = p.add_block_rule(network=NETWORK, **said, expected=1)
    report = p.erase("ada.lovelace", by="staff", reason="asked")
    assert report.complete
    [kept] = p.block_rules()
    assert isinstance(kept, BlockRule)
    assert kept.by == report.pseudonym
    assert "Lovelace" not in f"{kept.reason} {kept.message}"
    assert (kept.id, kept.network) == (rule.id, NETWORK)
    assert not _passes(p, ip="198.51.100.7")
