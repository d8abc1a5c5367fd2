"""Tokens are secrets: never stored, never printed, and a wrong token does not reveal why it is wrong."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

import pytest

from presence_core import LoginRefused, Settings
from presence_core.client.base import new_id
from presence_core.web.rules import Rules
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.monitor import Monitor
from tests.web.frameworks.sites import wsgi_site


def _b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _malformed(token: str) -> list[Any]:
    uid, sid, secret = token.split(".")
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    same_bytes = (
        secret[:-1] + last[(last.index(secret[-1]) & ~3) + (last.index(secret[-1]) + 1) % 4]
    )  # the same bytes, written differently
    return [
        "", " ", ".", "..", "...", "a", "a.b", "a.b.c", "a.b.c.d", f"{token} ", f" {token}", f"{token}\n", f"{token}=",
        f"{token}.", f".{token}", token[:-1], f"{token}A", token.upper(), token.replace(".", ":"), f"{uid}.{sid}.",
        f"{uid}.{sid}", f".{sid}.{secret}", f"{uid}..{secret}", f"{uid}.{sid}.{same_bytes}", f"{uid}=.{sid}.{secret}",
        f"{uid}.short.{secret}", f"{uid}.{sid}!.{secret}", f"{uid}.{sid}.{secret[:-4]}", f"{uid}.{sid}.{secret}AAAA",
        f"{_b64(bytes([255, 254]))}.{sid}.{secret}", f"{_b64(bytes(3))}.{sid}.{secret}",
        f"{_b64(b'x' * 257)}.{sid}.{secret}", f"{uid}.{sid}.{'é' * 43}", f"{uid}.{sid}.{'٣' * 43}", "\ud800",
        "x" * 10_000_000, "\0", 5, 5.0, [], {}, True,
    ]  # fmt: skip


def _wrong(token: str) -> list[str]:
    """Well formed tokens that were never issued."""
    uid, sid, secret = token.split(".")
    return [
        f"{uid}.{sid}.{_b64(bytes(32))}",
        f"{uid}.{'x' * 22}.{secret}",
        f"{_b64(b'bob')}.{sid}.{secret}",
        f"{uid}.{sid}.{_b64(sha256(_unb64(secret)).digest())}",
    ]


def test_a_token_is_uid_session_id_and_256_random_bits(p: P) -> None:
    seen = set()
    for uid in ("ada", "a.b:c", "😀"):
        login = p.login(uid)
        owner, sid, secret = login.token.split(".")
        assert _unb64(owner).decode() == uid
        assert sid == login.session.session_id
        assert len(_unb64(secret)) == 32
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", login.token), "it travels in a cookie as it is"
        seen.add(secret)
    assert len(seen) == 3


@every_topology
def test_neither_token_nor_secret_is_stored_anywhere(p: P, bed: Bed, raw: Any) -> None:
    first = p.login("ada", session_id="own-id-01")
    logins = [first, p.login("ada", session_id="own-id-01"), p.login("bob"), p.login("eve")]
    logins += [p.rotate(logins[1].token), p.rotate(logins[2].token)]
    for login in logins:
        p.validate(login.token, ip="192.0.2.1")
    p.kick("ada", by="staff", reason="test")
    p.logout("eve", logins[3].session.session_id)
    everything = b"\n".join(key + b"\n" + value for key, value in bed.dump().items())
    for value in _all_values(bed, raw):
        everything += b"\n" + value
    digests = 0
    for login in logins:
        secret = login.token.split(".")[2]
        plain = _unb64(secret)
        for form in (login.token.encode(), secret.encode(), plain, plain[:16], plain[16:], plain.hex().encode()):
            assert form not in everything
        digest = sha256(plain).digest()
        assert digest not in everything
        digests += digest[:16] in everything
    assert digests == 3, "what is kept is the first half of the latest secret's digest, once for each session"


def _all_values(bed: Bed, raw: Any) -> list[bytes]:
    """Values as stored, because a dump may compress them."""
    found: list[bytes] = []
    for keys in bed.families().values():
        for key in keys:
            kind = raw.type(key)
            if kind == b"hash":
                found += [part for pair in raw.hgetall(key).items() for part in pair]
            elif kind == b"string":
                found.append(raw.get(key))
            elif kind == b"set":
                found += raw.smembers(key)
            elif kind == b"zset":
                found += raw.zrange(key, 0, -1)
            elif kind == b"stream":
                found += [part for _, entry in raw.xrange(key) for pair in entry.items() for part in pair]
    return found


def test_no_printed_text_contains_a_secret(p: P) -> None:
    login = p.login("ada")
    secret = login.token.split(".")[2]
    shown = [repr(login), str(login), f"{login}", repr(login.session), repr(p.validate(login.token))]
    shown += [repr(p.list_sessions()), repr(p.rotate(login.token)), repr(p), repr(p.events())]
    assert not any(secret in text or login.token in text for text in shown)


@every_topology
def test_malformed_and_wrong_tokens_get_the_same_reply_as_unknown_ones(p: P) -> None:
    login = p.login("ada")
    over = p.login("ada")
    p.kick("ada", over.session.session_id, by="staff", reason="test")
    for number, token in enumerate(
        [*_malformed(login.token), *_malformed(over.token), *_wrong(login.token), *_wrong(over.token)]
    ):
        answer = p.validate(token)
        assert not answer, number
        assert (answer.session, answer.ended) == (None, None), number
        with pytest.raises(LoginRefused, match="opens no live session"):
            p.rotate(token)
    assert p.validate(login.token)


@on("valkey-async", "redis7-sync", soak=("valkey",))
def test_every_bit_of_the_digest_counts(p: P, raw: Any) -> None:
    login = p.login("ada")
    record = p.context.keys.shard("ada").record("ada", login.session.session_id)
    core = raw.hget(record, "c")
    for place in range(16, 32):
        raw.hset(record, "c", core[:place] + bytes([core[place] ^ 1]) + core[place + 1 :])
        assert not p.validate(login.token), place
        with pytest.raises(LoginRefused):
            p.rotate(login.token)
    raw.hset(record, "c", core)
    assert p.validate(login.token)


@on("valkey")
def test_malformed_and_unknown_tokens_cost_the_server_the_same_work(p: P, bed: Bed) -> None:
    login = p.login("ada")
    bad = [token for token in _malformed(login.token) if token != login.token]
    unknown = f"{_b64(b'nobody')}.{'x' * 22}.{_b64(bytes(32))}"
    p.validate(unknown)

    def work(token: Any) -> list[tuple[bytes, int]]:
        with Monitor(bed.raw) as monitor:
            p.validate(token)
        return [(line.words[0].upper(), len(line.words)) for line in monitor.lines]

    usual = work(unknown)
    assert usual[0][0] == b"EVALSHA"
    assert all(work(token) == usual for token in bad)


def test_a_token_made_up_by_a_client_begins_no_session(p: P, bed: Bed) -> None:
    """Nor does an id: only a login writes a session."""
    login = p.login("ada")
    before = bed.dump()
    for token in [*_malformed(login.token), *_wrong(login.token), f"{_b64(b'eve')}.{'x' * 22}.{_b64(bytes(32))}"]:
        assert not p.validate(token, ip="192.0.2.1")
        with pytest.raises(LoginRefused):
            p.rotate(token)
    assert not p.validate_session("eve", "made-up-session", ip="192.0.2.1")
    assert not p.heartbeat("eve", "made-up-session")
    assert p.heartbeats(["ada:made-up-session"]) == ["ada:made-up-session"]
    assert not p.logout("eve", "made-up-session")
    assert bed.dump() == before
    assert [session.ref for session in p.list_sessions()] == [login.session.ref]


@on("valkey-sync")
@pytest.mark.parametrize("mode", ["observe", "adopt", "enforce"])
def test_a_cookie_made_up_by_a_client_begins_no_session(p: P, bed: Bed, mode: Any) -> None:
    login = p.login("ada")
    before = bed.dump()
    site = wsgi_site(bed.url, Settings(namespace=bed.namespace, timeout=PATIENT), Rules(mode=mode), None)
    for token in [text for text in _malformed(login.token) + _wrong(login.token) if isinstance(text, str)]:
        plain = token[:5000].encode("ascii", "replace").decode()
        if plain.strip() == login.token:
            continue  # in a header, this value is the token
        for headers in ({"cookie": f"presence={plain}"}, {"authorization": f"Bearer {plain}"}):
            answer = site.ask("/", **headers)
            assert answer.body != b"ada"
            assert not any("presence=" in value and "Max-Age=0" not in value for _, value in answer.headers)
    site.close()
    assert bed.dump() == before


def test_a_secret_is_256_bits_of_the_operating_systems(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def known(size: int) -> bytes:
        asked.append(size)
        return bytes(range(size))

    monkeypatch.setattr("secrets.token_bytes", known)
    token = p.login("ada", session_id="session-1").token
    assert _unb64(token.split(".")[2]) == bytes(range(32))
    assert asked.count(32) == 1  # a connection pool made in between also needs a random id


@every_backend
def test_rotating_gives_a_new_secret_to_the_same_session(p: P) -> None:
    p.freeze()
    login = p.login("ada", name="Ada", device="phone", user_agent="curl/8.0", ip="192.0.2.1", attributes={"a": 1})
    p.advance(5)
    rotated = p.rotate(login.token)
    assert rotated.session == login.session
    assert rotated.replaced == []
    assert rotated.token != login.token
    assert rotated.token.rpartition(".")[0] == login.token.rpartition(".")[0]
    assert not p.validate(login.token)
    assert p.validate(login.token).ended is None
    assert p.validate(rotated.token).session == p.get("ada", login.session.session_id)
    with pytest.raises(LoginRefused):
        p.rotate(login.token)
    assert p.validate(p.rotate(rotated.token).token)
    assert p.counts().totals["login"] == 1
    assert [event.kind for event in p.events()] == ["login"]


@every_topology
def test_an_ended_session_is_not_rotated(p: P) -> None:
    login = p.login("ada")
    p.kick("ada", by="staff", reason="test")
    with pytest.raises(LoginRefused) as refused:
        p.rotate(login.token)
    assert refused.value.code == "ended"
    assert "staff" not in str(refused.value)
    assert p.validate(login.token).ended is not None


def test_an_id_never_looks_like_a_command_line_option() -> None:
    ids = {new_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", token_id) for token_id in ids)
