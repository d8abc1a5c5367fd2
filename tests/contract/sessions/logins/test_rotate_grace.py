"""``Settings(rotate_grace=…)``: tabs that rotate one token at the same time all stay signed in."""

from __future__ import annotations

import contextlib
import random
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest

from presence_core import LoginRefused, Session, SessionFilter
from tests.conftest import Bed, every_backend, on
from tests.support.facade import P
from tests.support.soak import size

BY: dict[str, Any] = {"by": "staff", "reason": "test"}
GRACE = 30


@pytest.fixture
def p(bed: Bed) -> P:
    p = bed.connect(rotate_grace=GRACE)
    p.freeze()
    return p


def _rotated_at_once(p: P, token: str, count: int) -> list[str]:
    with ThreadPoolExecutor(count) as pool:
        return [login.token for login in pool.map(p.rotate, [token] * count)]


def _live(p: P, tokens: Iterable[str]) -> list[bool]:
    return [bool(p.validate(token, touch=False)) for token in tokens]


def _secret(token: str) -> bytes:
    written = token.rpartition(".")[2]
    return urlsafe_b64decode(written + "=" * (-len(written) % 4))


def _record(p: P, raw: Any, session: Session) -> dict[bytes, bytes]:
    record: dict[bytes, bytes] = raw.hgetall(p.context.shard(session.uid).record(session.uid, session.session_id))
    return record


def _nonces_key(p: P, session: Session) -> str:
    return p.context.shard(session.uid).rotated(session.uid, session.session_id)


def _kinds(p: P) -> list[str]:
    return [event.kind for event in p.events() if event.kind != "login"]


# -- at once ----------------------------------------------------------------------------------------------------------


@every_backend
def test_of_five_tabs_that_rotate_at_once_each_gets_a_token_of_its_own_and_stays_signed_in(
    p: P, bed: Bed, raw: Any
) -> None:
    login = p.login("ada", name="Ada", device="phone", attributes={"a": 1})
    tokens = _rotated_at_once(p, login.token, 5)
    assert len({login.token, *tokens}) == 6
    assert _live(p, [login.token, *tokens]) == [True] * 6
    assert {p.validate(token, touch=False).session for token in tokens} == {login.session}
    record, dumped = _record(p, raw, login.session), b"".join(bed.dump().values())
    assert len(record[b"p"]) == 8 + 24, "one former secret"
    assert not any(_secret(token)[:32] in dumped for token in tokens)
    assert 0 < raw.pttl(_nonces_key(p, login.session)) <= GRACE * 1000
    p.advance(GRACE)
    assert _live(p, [login.token, *tokens]) == [False] + [True] * 5
    # Whichever of the five the browser kept: the next rotate takes it, and the others follow.
    newest = _rotated_at_once(p, tokens[3], 2) + [p.rotate(token).token for token in tokens]
    assert len(set(newest)) == 7
    p.advance(GRACE)
    assert _live(p, newest) == [True] * 7
    assert not any(_live(p, tokens))


def test_callers_of_two_rotations_follow_to_the_present_secret_and_the_one_before_falls_out(p: P, raw: Any) -> None:
    first = p.login("ada")
    second = p.rotate(first.token)
    p.advance(10)
    third = p.rotate(second.token)
    late = p.rotate(first.token)
    assert _live(p, [first.token, second.token, third.token, late.token]) == [True] * 4
    assert p.rotate(second.token).token not in (third.token, late.token)
    assert len(_record(p, raw, first.session)[b"p"]) == 8 + 2 * 24, "at most three digests, with that of the core"
    fourth = p.rotate(late.token)
    assert _live(p, [first.token, second.token, third.token, late.token, fourth.token]) == [False] + [True] * 4
    with pytest.raises(LoginRefused):
        p.rotate(first.token)
    assert _kinds(p) == [], "it fell out in its grace, which is no sign of anything"
    assert len(_record(p, raw, first.session)[b"p"]) == 8 + 2 * 24


def test_from_the_seventeenth_caller_on_they_share_a_token(p: P) -> None:
    login = p.login("ada")
    tokens = [p.rotate(login.token).token for _ in range(20)]
    assert len(set(tokens[:16])) == 16
    assert set(tokens[15:]) == {tokens[15]}
    p.advance(GRACE)
    assert all(_live(p, tokens))


def test_two_lost_replies_cost_no_sign_in(p: P) -> None:
    """A client that never learns of its new token rotates once more with the one that it has."""
    login = p.login("ada")
    for _ in range(3):
        token = p.rotate(login.token).token
    p.advance(GRACE)
    assert p.validate(token)


@on("valkey")
def test_a_token_of_which_one_bit_differs_opens_nothing(p: P) -> None:
    login = p.login("ada")
    p.rotate(login.token)
    token = p.rotate(login.token).token
    secret, head = _secret(token), token.rpartition(".")[0]
    assert (len(secret), secret[-1]) == (33, 1)
    for place in range(33):
        for other in (secret[place] ^ 1, secret[place] ^ 128, 0, 255):
            changed = secret[:place] + bytes([other]) + secret[place + 1 :]
            if changed != secret:
                assert not p.validate(f"{head}.{urlsafe_b64encode(changed).decode()}"), (place, other)
    assert not p.validate(f"{head}.{urlsafe_b64encode(secret[:32]).decode().rstrip('=')}")
    assert p.validate(token)
    present = sha256(secret[:32]).digest()
    assert p.validate(f"{head}.{urlsafe_b64encode(present).decode().rstrip('=')}"), "the secret of the first caller"
    assert not p.validate(f"{head}.{urlsafe_b64encode(present + bytes(1)).decode()}")


@pytest.mark.parametrize("seed", range(size(2, 40)))
def test_random_rotates_of_any_token_agree_with_a_simple_model(p: P, seed: int) -> None:
    draw = random.Random(seed)
    login = p.login("ada", idle_timeout=86_400)
    generations, ends, noted = [[login.token]], [0], False  # tokens of one secret; when its grace ends
    for _ in range(100):
        number = draw.randrange(max(0, len(generations) - 4), len(generations))
        place, token = len(generations) - number, draw.choice(generations[number])
        is_valid = place == 1 or (place <= 3 and p.clock.ms < ends[number])
        if draw.random() < 0.5:
            assert bool(p.validate(token)) == is_valid
        elif is_valid:
            if place == 1:
                ends[number] = p.clock.ms + GRACE * 1000
                generations.append([])
                ends.append(0)
            generations[-1].append(p.rotate(token).token)
        else:
            with pytest.raises(LoginRefused):
                p.rotate(token)
        noted |= not is_valid and place <= 3
        p.advance(draw.choice((0, 0, 1, 10, GRACE)))
    assert p.sessions("ada")[0].old_token == noted
    assert _kinds(p) == ["old_token"] * noted
    own = [token for tokens in generations for token in tokens[:16]]
    assert len(set(own)) == len(own)
    assert all(_live(p, generations[-1]))


# -- the grace --------------------------------------------------------------------------------------------------------


@every_backend
def test_within_the_grace_the_old_token_does_all_that_the_new_one_does(p: P) -> None:
    login = p.login("ada")
    new = p.rotate(login.token)
    p.advance(GRACE - 0.001)
    assert p.validate(login.token, ip="192.0.2.7", max_age=60)
    assert p.get("ada", login.session.session_id).last_seen == p.clock.now  # type: ignore[union-attr]
    assert p.update(login.token, attributes={"a": 1})
    p.advance(0.001)
    assert not p.validate(login.token)
    assert p.validate(new.token).session.attributes == {"a": 1}  # type: ignore[union-attr]


@every_backend
def test_a_use_after_the_grace_is_an_event_and_a_flag_once(p: P, bed: Bed) -> None:
    logins = [p.login("ada", device_id=f"device-{number}") for number in (1, 2)]
    login = logins[1]
    new = p.rotate(login.token)
    assert new.session.new_device
    assert not new.session.old_token
    p.advance(GRACE)
    for _ in range(2):
        assert p.validate(login.token).code == "unknown"
        assert p.update(login.token, attributes={"a": 1}).code == "unknown"
    with pytest.raises(LoginRefused):
        p.rotate(login.token)
    before = bed.dump()
    assert not p.validate(login.token)
    assert bed.dump() == before, "no flood"
    assert _kinds(p) == ["new_device", "old_token"]
    event = p.events()[-1]
    assert (event.uid, event.session_id, event.at) == ("ada", login.session.session_id, p.clock.now)
    found = p.validate(new.token).session
    assert found is not None
    assert found.old_token
    assert found.new_device
    assert p.list_sessions(SessionFilter(old_token=True)).items == [found]
    assert p.list_sessions(SessionFilter(old_token=True, distant=True)).items == []
    assert p.count_sessions(SessionFilter(old_token=True, new_device=True)) == 1
    again = p.login("ada", session_id=login.session.session_id)
    assert again.session.old_token, "it stays, like what was odd about the login"
    p.kick("ada", login.session.session_id, **BY)
    assert [ended.old_token for ended in p.ended("ada")] == [True]


@pytest.mark.parametrize("use", ["rotate", "reauthenticated", "update", "validate"])
def test_each_use_after_the_grace_is_noted(p: P, use: str) -> None:
    login = p.login("ada")
    p.rotate(login.token)
    p.advance(GRACE)
    arguments: dict[str, Any] = {"attributes": {"a": 1}} if use == "update" else {}
    with contextlib.suppress(LoginRefused):
        assert not getattr(p, use)(login.token, **arguments)
    assert _kinds(p) == ["old_token"]


def test_a_session_on_behalf_of_its_user_keeps_the_flag_when_its_login_is_repeated(p: P) -> None:
    login = p.login("ada", on_behalf_by="sam", reason="call")
    p.rotate(login.token)
    p.advance(GRACE)
    p.validate(login.token)
    again = p.login("ada", session_id=login.session.session_id, on_behalf_by="sam", reason="call")
    assert (again.session.on_behalf_by, again.session.old_token) == ("sam", True)


def test_a_client_that_may_not_write_notes_no_use(p: P, bed: Bed) -> None:
    login = p.login("ada")
    p.rotate(login.token)
    p.advance(GRACE)
    before = bed.dump()
    assert not bed.connect(heal=False).validate(login.token)
    assert bed.dump() == before


def test_other_wrong_tokens_are_no_sign_of_a_copy(p: P, bed: Bed) -> None:
    login = p.login("ada")
    new = p.rotate(login.token)
    p.advance(GRACE)
    before = bed.dump()
    for token in (new.token[:-5] + "AAAAA", login.token[:-5] + "AAAAA", "malformed"):
        assert not p.validate(token)
    assert bed.dump() == before
    p.logout("ada", login.session.session_id)
    assert not p.validate(login.token)
    assert _kinds(p) == ["logout"]


# -- what is immediate ------------------------------------------------------------------------------------------------


@every_backend
def test_after_a_new_authentication_no_former_token_is_valid(p: P, raw: Any) -> None:
    login = p.login("ada")
    tokens = [login.token, *(p.rotate(login.token).token for _ in range(3))]
    fresh = p.reauthenticated(tokens[0], methods=["pwd"])  # of a tab that had the old one
    assert _live(p, [*tokens, fresh.token]) == [False] * 4 + [True]
    for token in tokens:
        for change in (p.rotate, p.reauthenticated):
            with pytest.raises(LoginRefused):
                change(token)
    assert b"p" not in _record(p, raw, login.session)
    assert _kinds(p) == []
    other = p.login("bob")
    new = p.rotate(other.token)
    p.reauthenticated_session("bob", other.session.session_id)
    assert _live(p, [other.token, new.token]) == [False, True]


@every_backend
def test_a_kick_and_a_required_sign_in_are_immediate_for_every_token(p: P) -> None:
    login = p.login("ada")
    tokens = [login.token, *(p.rotate(login.token).token for _ in range(3))]
    p.require_sign_in("ada", **BY)
    assert [p.validate(token).code for token in tokens] == ["sign_in_required"] * 4
    for token in tokens:
        with pytest.raises(LoginRefused) as refused:
            p.rotate(token)
        assert refused.value.code == "sign_in_required"
    fresh = p.reauthenticated(tokens[-1])
    assert _live(p, [*tokens, fresh.token]) == [False] * 4 + [True]
    tokens = [fresh.token, *(p.rotate(fresh.token).token for _ in range(3))]
    p.kick("ada", **BY)
    assert [p.validate(token).code for token in tokens] == ["ended"] * 4, "also of a former one: its holder learns why"
    for token in tokens:
        with pytest.raises(LoginRefused):
            p.rotate(token)


def test_a_repeated_login_makes_all_former_tokens_invalid(p: P) -> None:
    login = p.login("ada", session_id="session-of-ada")
    new = p.rotate(login.token)
    again = p.login("ada", session_id="session-of-ada")
    assert _live(p, [login.token, new.token, again.token]) == [False, False, True]
    newest = p.rotate(again.token)
    assert _live(p, [login.token, new.token, again.token, newest.token]) == [False, False, True, True]


# -- what is stored ---------------------------------------------------------------------------------------------------


def test_without_a_grace_nothing_more_is_stored_and_the_old_token_is_invalid_at_once(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    login = p.login("ada")
    before = bed.dump()
    new = p.rotate(login.token)
    changed = {key for key, value in bed.dump().items() if before.get(key) != value}
    assert {key.partition(b":session:")[0] for key in changed} == {p.context.shard("ada").tag.encode()}
    assert set(_record(p, bed.raw, login.session)) == {b"s", b"c"}
    assert _live(p, [login.token, new.token]) == [False, True]
    p.advance(400)
    assert not p.validate(login.token)
    assert _kinds(p) == []


def test_a_process_without_the_grace_keeps_that_of_others_until_it_rotates_itself(p: P, bed: Bed) -> None:
    without = bed.connect()
    login = p.login("ada")
    tokens = [login.token, *(p.rotate(login.token).token for _ in range(3))]
    assert _live(without, tokens) == [True] * 4
    with pytest.raises(LoginRefused):
        without.rotate(login.token)
    new = without.rotate(tokens[-1])
    for any_process in (p, without):
        assert _live(any_process, [*tokens, new.token]) == [False] * 4 + [True]
    newest = p.rotate(new.token)
    assert _live(p, [*tokens, new.token, newest.token]) == [False] * 4 + [True] * 2
    assert p.validate(p.rotate(new.token).token)


@on("valkey")
def test_the_nonces_are_gone_when_the_grace_has_ended_and_each_value_stays_small(bed: Bed) -> None:
    p = bed.connect(rotate_grace=1)
    login = p.login("ada")
    second = p.rotate(login.token)
    p.rotate(second.token)
    p.rotate(login.token)
    assert bed.raw.strlen(_nonces_key(p, login.session)) == 1 + 2 * 16
    assert 0 < bed.raw.pttl(_nonces_key(p, login.session)) <= 1000
    assert max(map(len, _record(p, bed.raw, login.session).values())) <= 64
    until = time.monotonic() + 10
    while "rotated:" in bed.families():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_server_that_evicted_the_nonces_lets_the_old_token_live_out_its_grace(p: P, bed: Bed) -> None:
    login = p.login("ada")
    new = p.rotate(login.token)
    bed.raw.delete(_nonces_key(p, login.session))
    with pytest.raises(LoginRefused):
        p.rotate(login.token)
    assert _live(p, [login.token, new.token]) == [True, True]
    newest = p.rotate(new.token)
    assert p.validate(p.rotate(new.token).token)
    p.advance(GRACE)
    assert _live(p, [login.token, new.token, newest.token]) == [False, False, True]


@pytest.mark.parametrize("stored", [b"", b"x", b"x" * 8, b"x" * 32, b"x" * 40, b"x" * 200])
def test_a_damaged_field_of_former_secrets_makes_none_valid(p: P, bed: Bed, stored: bytes) -> None:
    login = p.login("ada")
    new = p.rotate(login.token)
    key = p.context.shard("ada").record("ada", login.session.session_id)
    bed.raw.hset(key, "p", stored)
    assert _live(p, [login.token, new.token]) == [False, True]
    bound = bed.raw.hget(key, "p") if not stored else bed.raw.hget(key, "c")[16:24] + stored
    bed.raw.hset(key, "p", bound)
    assert _live(p, [login.token, new.token]) == [False, True]
    assert p.validate(p.rotate(new.token).token)


def test_a_reshard_keeps_the_grace_for_validations(p: P, bed: Bed) -> None:
    login = p.login("ada")
    new = p.rotate(login.token)
    p.reshard(3)
    assert _live(p, [login.token, new.token]) == [True, True]
    with pytest.raises(LoginRefused):
        p.rotate(login.token)  # the nonces stayed behind
    assert _live(p, [p.rotate(new.token).token, new.token, login.token]) == [True] * 3


def test_an_erasure_removes_the_nonces_too(p: P, bed: Bed) -> None:
    login = p.login("ada")
    p.rotate(login.token)
    p.rotate(p.login("bob").token)
    assert p.erase("ada", **BY).complete
    assert [key for key in bed.families()["rotated:"] if b"ada" in key] == []
    assert len(bed.families()["rotated:"]) == 1
