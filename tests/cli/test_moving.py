"""Each block of docs/use/move.md runs on a real Redis that holds data of the other store in its format.

The block of the tally runs in tests/web/test_page_blocks.py.
"""

from __future__ import annotations

import json
import pickle
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from presence_core import Presence, Settings
from presence_core.web.rules import hashed_id
from tests.conftest import Bed, on
from tests.support.fair_clock import PATIENT

DOCUMENT = Path(__file__).parents[2] / "docs/use/move.md"
BLOCKS = dict(re.findall(r"^```python ([\w-]+)\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.M | re.S))

KEY = "a key of at least thirty-two bytes, as HS256 wants"
HOUR = 3600

Run = Callable[..., dict[str, Any]]


def ago(seconds: float) -> float:
    return time.time() - seconds


valkey = on("valkey-sync")


@pytest.fixture
def run(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run blocks of the page, the common block first; returns the names that they define."""
    bed.raw.flushall()
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    known: dict[str, Any] = {"OLD_URL": bed.url, "KEY": KEY}
    with ExitStack() as open_:

        def run(*names: str, **given: Any) -> dict[str, Any]:
            for name in names if "presence" in known else ("setup", *names):
                known.update(given)
                exec(compile(BLOCKS[name], f"{DOCUMENT.name}, {name}", "exec"), known)
                for value in list(known.values()):
                    if hasattr(value, "close") and not isinstance(value, type):
                        open_.callback(value.close)
            return known

        yield run
    bed.raw.flushall()


def is_about(moment: datetime, seconds: float) -> bool:
    """A TTL is read some time after it was set, so it may be lower by the time that this test had to wait."""
    return abs(moment.timestamp() - seconds) < 10


def only(presence: Presence, uid: str) -> Any:
    [session] = presence.sessions(uid)
    assert session in list(presence.list_sessions())
    assert presence.validate_session(uid, session.session_id, touch=False)
    return session


def test_each_block_of_the_page_is_tested() -> None:
    assert set(BLOCKS) == {"rollout", "setup", "django-db", "django-cache", "flask-session", "flask-middleware",
                           "express", "redis-sessions", "last-seen", "jwt"}  # fmt: skip
    assert len(re.findall("^```python", DOCUMENT.read_text("utf-8"), re.MULTILINE)) == len(BLOCKS)
    for name, block in BLOCKS.items():
        lines = [line for line in block.splitlines() if line and not line.startswith(("import ", "from "))]
        assert len(lines) <= 18, name


# -- import_rows ------------------------------------------------------------------------------------------------------


@valkey
def test_an_import_can_be_repeated_and_a_kicked_session_stays_ended(run: Run) -> None:
    presence, import_rows = [run()[name] for name in ("presence", "import_rows")]
    rows = [{"uid": f"u{n}", "session_id": hashed_id(f"k{n}"), "login_at": ago(60 + n % 600)} for n in range(1500)]
    late = {"uid": "late", "session_id": hashed_id("late"), "login_at": ago(HOUR), "idle_timeout": 60}
    assert import_rows([*rows, late]) == {"expired": 1}
    before = presence.sessions("u7")[0].login_at
    presence.kick("u8", by="sam", reason="test")
    assert import_rows(rows) == {"ended": 1}
    assert presence.counts().sessions == 1499
    assert presence.sessions("u7")[0].login_at == before


# -- Django -----------------------------------------------------------------------------------------------------------


class Site:
    """A Django site with people who signed in before presence was installed."""

    def __init__(self, backend: str) -> None:
        from django.contrib.auth import get_user_model

        self.store = __import__(f"django.contrib.sessions.backends.{backend}", fromlist=["SessionStore"]).SessionStore
        self.users = get_user_model().objects
        self.users.all().delete()
        self.ada = self.users.create_user("ada", first_name="Ada", last_name="Lovelace")

    def sign_in(self) -> str:
        """The session that ``django.contrib.auth.login`` leaves."""
        from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

        session = self.store()
        session[SESSION_KEY] = str(self.ada.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = self.ada.get_session_auth_hash()
        session.create()
        return str(session.session_key)


def browser(key: str) -> Any:
    from django.test import Client

    client = Client(headers={"accept": "text/html"})
    client.cookies["sessionid"] = key
    return client


@pytest.fixture
def django(bed: Bed) -> Iterator[Callable[..., Any]]:
    """Changes Django's settings until the end of the test."""
    from tests.web.frameworks import django_site

    django_site.configure(bed.url, bed.namespace)
    from django.test import override_settings

    with ExitStack() as settings:

        def change(**given: Any) -> None:
            settings.enter_context(override_settings(**given))

        change(PRESENCE_REDIS_URL=bed.url, PRESENCE_SETTINGS={"namespace": bed.namespace}, PRESENCE_RULES={})
        yield change


def moved(django: Callable[..., Any], site: Site, old: str, watching: Presence) -> Any:
    """The steps after the second, for a visitor who signed in before: no user is logged out, except by a kick."""
    client = browser(old)
    for mode in ("observe", "adopt", "enforce"):
        django(PRESENCE_RULES={"mode": mode})
        assert client.get("/").content.decode() == f"ada {hashed_id(old)}", mode
    assert client.post("/password", {"password": "a new one"}).content == b"changed"  # Django changes the key
    assert client.get("/").content.decode() == f"ada {hashed_id(old)}"
    session = only(watching, str(site.ada.pk))
    assert (session.name, session.session_id) == ("Ada Lovelace", hashed_id(old))
    assert watching.kick(session.uid, by="sam", reason="test")
    assert client.get("/").status_code == 302
    assert client.get("/").content == b"nobody none"
    return session


@valkey
def test_django_sessions_in_the_database_are_imported(run: Run, django: Any, bed: Bed) -> None:
    from django.contrib.sessions.models import Session
    from django.utils import timezone

    site = Site("db")
    old, void, gone, anonymous = site.sign_in(), site.sign_in(), site.sign_in(), site.store()
    anonymous["basket"] = 1
    anonymous.create()
    age = 1_209_600
    expires = datetime.fromtimestamp(int(ago(3 * 86_400)) + age, UTC)
    Session.objects.filter(pk=old).update(expire_date=expires)
    Session.objects.filter(pk=gone).update(expire_date=timezone.now())
    data = site.store(void)
    data["_auth_user_hash"] = "of an older password"
    data.save()
    django(PRESENCE_RULES={"mode": "observe"})
    run("django-db")
    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as watching:
        session = only(watching, str(site.ada.pk))
        assert session.login_at.timestamp() == expires.timestamp() - age
        assert session.expires_at == expires
        moved(django, site, old, watching)


@valkey
@pytest.mark.parametrize("expiry", [HOUR, 30 * 86_400, timedelta(days=30)], ids=str)
def test_a_django_session_keeps_its_expiry(run: Run, django: Any, bed: Bed, expiry: Any) -> None:
    site = Site("db")
    session = site.store(site.sign_in())
    session.set_expiry(expiry)
    session.save()
    django(PRESENCE_RULES={"mode": "observe"})
    run("django-db")
    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as watching:
        life = expiry.total_seconds() if isinstance(expiry, timedelta) else expiry
        assert is_about(only(watching, str(site.ada.pk)).expires_at, time.time() + life)
        assert browser(session.session_key).get("/").content.startswith(b"ada ")
        assert is_about(only(watching, str(site.ada.pk)).expires_at, time.time() + life)


@valkey
def test_django_sessions_in_the_redis_cache_are_imported(run: Run, django: Any, bed: Bed) -> None:
    cache = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": bed.url}
    django(CACHES={"default": cache}, SESSION_ENGINE="django.contrib.sessions.backends.cache")
    site = Site("cache")
    old = site.sign_in()
    assert bed.raw.expire(f":1:django.contrib.sessions.cache{old}", 1_209_600 - HOUR)
    django(PRESENCE_RULES={"mode": "observe"})
    run("django-db", "django-cache")
    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as watching:
        assert is_about(moved(django, site, old, watching).login_at, ago(HOUR))


@valkey
def test_a_django_login_that_was_recorded_is_not_imported_again(run: Run, django: Any, bed: Bed) -> None:
    site, client = Site("db"), browser("")
    site.ada.set_password("correct horse battery")
    site.ada.save()
    django(PRESENCE_RULES={"mode": "observe"})
    client.post("/sign-in", {"who": "ada", "password": "correct horse battery"}, headers={"user-agent": "Firefox"})
    run("django-db")
    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as watching:
        assert only(watching, str(site.ada.pk)).user_agent == "Firefox"


# -- Flask-Session ----------------------------------------------------------------------------------------------------


def unpack(raw: bytes) -> dict[str, Any]:
    """A MessagePack encoder that is sufficient for these sessions: a small map of short texts to short texts and
    booleans."""
    at = 1

    def item() -> Any:
        nonlocal at
        kind, at = raw[at], at + 1
        if kind in (0xC2, 0xC3):
            return kind == 0xC3
        assert kind >> 5 == 0b101
        at += kind & 31
        return raw[at - (kind & 31) : at].decode()

    assert raw[0] >> 4 == 8
    return {item(): item() for _ in range(raw[0] & 15)}


ADA = {"_permanent": True, "_fresh": True, "_user_id": "7", "name": "Ada Lovelace"}

#: Data that Flask-Session 0.8.0 wrote of ADA in its default format, and data of older or other formats.
FLASK: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "msgpack": (b"\x84\xaa_permanent\xc3\xa6_fresh\xc3\xa8_user_id\xa17\xa4name\xacAda Lovelace", unpack),
    "json": (json.dumps(ADA, separators=(",", ":")).encode(), json.loads),
    "pickle": (pickle.dumps(ADA), pickle.loads),
}


@valkey
@pytest.mark.parametrize("format", FLASK)
def test_flask_sessions_are_imported_in_any_format(run: Run, bed: Bed, format: str) -> None:
    raw, decode = FLASK[format]
    assert decode(raw) == ADA
    sid = "5cRmQ8Yp2bq1b9K0aH3cXq6hJtVZ1sGf1mJ5nP0wLkE"
    bed.raw.set(f"session:{sid}", raw, ex=31 * 86_400 - HOUR)
    bed.raw.set("session:visitor", pickle.dumps({}) if format == "pickle" else raw[:0] or b"{}", ex=HOUR)
    presence = run("flask-session", decode=lambda raw: {} if raw == b"{}" else decode(raw))["presence"]
    session = only(presence, "7")
    assert (session.name, session.session_id) == ("Ada Lovelace", hashed_id(sid))
    assert is_about(session.login_at, ago(HOUR))
    assert presence.counts().sessions == 1


@valkey
def test_a_flask_site_adopts_new_sessions_and_ends_both(run: Run, bed: Bed) -> None:
    from flask import Flask

    app = Flask("site")

    @app.get("/me")
    def me() -> str:
        from flask import request

        session = request.environ["presence.session"]
        return session.name or session.uid if session else "nobody"

    raw, decode = FLASK["msgpack"]
    bed.raw.set("session:before", raw, ex=31 * 86_400 - HOUR)
    presence = run("flask-session", "flask-middleware", app=app, decode=decode)["presence"]
    bed.raw.set("session:since", b"\x81\xa8_user_id\xa18", ex=HOUR)

    def ask(sid: str) -> Any:
        return app.test_client(use_cookies=False).get("/me", headers={"Cookie": f"session={sid}"} if sid else {})

    assert [ask(sid).text for sid in ("before", "since", "", "nonsense")] == ["Ada Lovelace", "8", "nobody", "nobody"]
    assert is_about(only(presence, "7").login_at, ago(HOUR))
    assert only(presence, "8").session_id == hashed_id("since")
    presence.kick("7", by="sam", reason="test")
    assert ask("before").headers["Location"] == "/sign-in"
    assert not bed.raw.exists("session:before")
    assert ask("since").text == "8"


# -- express-session --------------------------------------------------------------------------------------------------


def express(bed: Bed, sid: str, life: int | None, written: float, left: float, **data: Any) -> None:
    """The value that connect-redis sets: JSON.stringify of the session, with the cookie's lifetime as TTL."""
    cookie: dict[str, Any] = {"originalMaxAge": None, "expires": None, "httpOnly": True, "path": "/"}
    if life is not None:
        expires = datetime.fromtimestamp(written + life, UTC).isoformat(timespec="milliseconds")
        cookie |= {"originalMaxAge": life * 1000, "expires": expires.replace("+00:00", "Z")}
    bed.raw.set(f"sess:{sid}", json.dumps({"cookie": cookie, **data}, separators=(",", ":")), px=int(left * 1000))


@valkey
def test_express_sessions_are_imported(run: Run, bed: Bed) -> None:
    begun = int(ago(3 * HOUR))
    express(bed, "ada-sid", 7 * HOUR, begun, 6 * HOUR, userId=7, name="Ada Lovelace")
    express(bed, "bob-sid", None, begun, 86_400 - HOUR, userId="bob")
    express(bed, "visitor", 7 * HOUR, begun, 6 * HOUR, basket=[1])
    presence = run("express")["presence"]
    ada, bob = only(presence, "7"), only(presence, "bob")
    assert (ada.name, ada.session_id, ada.login_at.timestamp()) == ("Ada Lovelace", hashed_id("ada-sid"), begun)
    assert is_about(ada.last_seen, ago(HOUR))
    assert is_about(ada.expires_at, time.time() + 6 * HOUR)
    assert is_about(bob.login_at, ago(HOUR))
    assert presence.counts().sessions == 2


#: Data that express-session 1.19.0 and connect-redis 9.0.0 kept after a sign-in and another request, by the option that
#: was used: the JSON, the TTL (ms), and for how long (s) express-session keeps the session without a request.
CAPTURED: dict[str, tuple[str, int, int]] = {
    "cookie: {maxAge: 604800000}": (
        '{"cookie":{"originalMaxAge":604800000,"expires":"2026-11-29T14:28:16.996Z","httpOnly":true,"path":"/"},'
        '"userId":7,"name":"Ada Lovelace"}', 604_799_863, 7 * 86_400),
    "none": (
        '{"cookie":{"originalMaxAge":null,"expires":null,"httpOnly":true,"path":"/"},"userId":7,"name":"Ada Lovelace"}',
        86_399_889, 86_400),
    "cookie: {maxAge: undefined}": (
        '{"cookie":{"httpOnly":true,"path":"/"},"userId":7,"name":"Ada Lovelace"}', 86_399_970, 86_400),
    "disableTTL: true": (
        '{"cookie":{"originalMaxAge":604800000,"expires":"2026-11-29T14:28:18.404Z","httpOnly":true,"path":"/"},'
        '"userId":7,"name":"Ada Lovelace"}', -1, 7 * 86_400),
    "cookie: {expires: new Date(…)}": (
        '{"cookie":{"originalMaxAge":259197252,"expires":"2026-11-25T14:28:16.946Z","httpOnly":true,"path":"/"},'
        '"userId":7,"name":"Ada Lovelace"}', 259_197_885, 259_198),
    "cookie: {maxAge: 630720000000}": (
        '{"cookie":{"originalMaxAge":630720000000,"expires":"2046-11-17T14:28:18.825Z","httpOnly":true,"path":"/"},'
        '"userId":7,"name":"Ada Lovelace"}', 630_719_999_894, 10 * 365 * 86_400),
}  # fmt: skip


@valkey
@pytest.mark.parametrize("option", CAPTURED)
def test_an_express_session_keeps_its_lifetime(run: Run, bed: Bed, option: str) -> None:
    record, left, life = CAPTURED[option]
    data = json.loads(record)
    if data["cookie"].get("expires"):  # as if it had just been captured
        written = datetime.fromtimestamp(time.time() - 0.2 + data["cookie"]["originalMaxAge"] / 1000, UTC)
        data["cookie"]["expires"] = written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    bed.raw.set("sess:83zv9FtcgEJa5o35Ceu6mFWXmqnEf65m", json.dumps(data), px=left if left > 0 else None)
    known = run("express")
    ada = only(known["presence"], "7")
    assert (ada.name, ada.idle_timeout) == ("Ada Lovelace", life)
    assert ada.absolute_timeout >= known["YEAR"]
    assert is_about(ada.expires_at, time.time() + life)
    assert known["presence"].heartbeat("7", ada.session_id)


@valkey
def test_an_old_session_that_stayed_active_is_not_past_its_deadline(run: Run, bed: Bed) -> None:
    express(bed, "old-sid", 7 * 86_400, int(ago(400 * 86_400)), 7 * 86_400 - HOUR, userId=7)
    presence = run("express")["presence"]
    assert is_about(only(presence, "7").expires_at, time.time() + 7 * 86_400 - HOUR)


# -- redis-sessions ---------------------------------------------------------------------------------------------------


def base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (base36(number // 36) if number >= 36 else "") + digits[number % 36]


def redis_sessions_create(bed: Bed, app: str, uid: str, made: float, seen: float, ttl: int, data: str = "") -> str:
    """The writes of ``create``, and of the latest ``get``."""
    token = "kU7wQmB3xR" * 5 + "aBc12" + "Z" + base36(int(made * 1000))
    assert len(token) == 64
    r, la = bed.raw, int(seen)
    r.zadd(f"rs:{app}:_sessions", {f"{token}:{uid}": la})
    r.zadd(f"rs:{app}:_users", {uid: la})
    r.zadd("rs:SESSIONS", {f"{app}:{token}:{uid}": la + ttl})
    r.sadd(f"rs:{app}:us:{uid}", token)
    fields = {"id": uid, "r": 2, "w": 1, "ip": "192.0.2.7", "la": la, "ttl": ttl} | ({"d": data} if data else {})
    r.hset(f"rs:{app}:{token}", mapping=fields)
    return token


@valkey
def test_redis_sessions_are_imported_with_the_login_time_of_the_token(run: Run, bed: Bed) -> None:
    made = int(ago(40 * 86_400)) + 0.123
    data = '{"name":"Ada Lovelace","tenant":"navy"}'
    token = redis_sessions_create(bed, "shop", "team:7", made, ago(HOUR), 7200, data)
    redis_sessions_create(bed, "shop", "bob", ago(5 * HOUR), ago(3 * HOUR), 7200)  # past its end, but not yet wiped
    redis_sessions_create(bed, "wiki", "eve", ago(HOUR), ago(60), 7200)
    redis_sessions_create(bed, "shop", "old", ago(400 * 86_400), ago(60), 7200)  # longer than a year, and still active
    presence = run("redis-sessions")["presence"]
    assert is_about(only(presence, "old").expires_at, time.time() + 7200 - 60)
    session = only(presence, "team:7")
    assert (session.name, dict(session.attributes)) == ("Ada Lovelace", {"tenant": "navy"})
    assert (session.app, session.ip, session.session_id) == ("shop", "192.0.2.7", hashed_id(token))
    assert round(session.login_at.timestamp(), 3) == made
    assert is_about(session.expires_at, time.time() + HOUR)
    assert presence.counts().sessions == 2
    assert bed.raw.zcard("rs:shop:_sessions") == 3, "the old store is only read"


# -- lists of one's own -----------------------------------------------------------------------------------------------


@valkey
def test_a_sorted_set_and_minute_sets_are_used_as_they_are(run: Run, bed: Bed) -> None:
    bed.raw.zadd("last.seen", {"ada": ago(30), "bob": int(ago(600)), "eve": ago(9000)})
    bed.raw.sadd(f"online:{(minute := int(time.time()) // 60)}", "ada")
    bed.raw.sadd(f"online:{minute - 2}", "bob")
    known = run("last-seen")
    assert known["board"].members() == known["minutes"].members() == ["ada", "bob"]
    known["board"].touch("cy")
    known["minutes"].touch("cy")
    assert bed.raw.zcard("last.seen") == 4, "no user was removed"
    assert any(bed.raw.sismember(f"online:{number}", "cy") for number in (minute, minute + 1))
    bed.raw.zadd("last.seen.ms", {"ada": ago(30) * 1000})
    bed.raw.execute_command("ZUNIONSTORE last.seen 1 last.seen.ms WEIGHTS 0.001")
    assert known["board"].members() == ["ada"]


# -- JWT --------------------------------------------------------------------------------------------------------------


@valkey
def test_an_old_jwt_is_adopted_and_can_then_be_kicked(run: Run) -> None:
    import jwt

    def issue(uid: str, issued: int, **more: Any) -> str:
        return jwt.encode({"sub": uid, "iat": issued, "exp": issued + 2 * HOUR, **more}, KEY, "HS256")

    known = run("jwt")
    presence, check, issued = known["presence"], known["check"], int(ago(HOUR))
    ada, bob = issue("ada", issued, jti="0123456789abcdef", name="Ada Lovelace"), issue("bob", issued)
    assert [check(token)["sub"] for token in (ada, bob, ada)] == ["ada", "bob", "ada"]
    session = only(presence, "ada")
    assert (session.name, session.session_id) == ("Ada Lovelace", "0123456789abcdef")
    assert (session.login_at.timestamp(), session.expires_at.timestamp()) == (issued, issued + 2 * HOUR)
    assert only(presence, "bob").session_id == hashed_id(bob)

    presence.kick("ada", by="sam", reason="test")
    known["SWITCH"] = ago(60)
    presence.block("cy", by="sam", reason="test")
    for refused in (ada, issue("ada", int(ago(10)), jti="fedcba9876543210"), issue("cy", issued)):
        with pytest.raises(PermissionError, match="This session has ended"):
            check(refused)
    presence.revoke_before(by="sam", reason="test")
    for refused in (bob, issue("dan", issued)):
        with pytest.raises(PermissionError, match="This session has ended"):
            check(refused)
