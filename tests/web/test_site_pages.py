"""Recipes R1 and R5 as pages use them, by HTTP; and the limits for pages of other sites."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any

import pytest
from limits.storage import MemoryStorage
from starlette.exceptions import HTTPException

from presence_core import InvalidArgument
from presence_core.trackers import AsyncLastSeenTracker, AsyncMinuteSetTracker
from presence_core.web.proxies import Proxies
from presence_core.web.service.site_pages.access import AddressLimiter
from presence_core.web.service.site_pages.new_visitors import NewVisitors
from presence_core.web.service.site_pages.options import Pages
from presence_core.web.service.site_pages.script import SCRIPT
from presence_core.web.service.site_pages.visitors import LeftPages
from tests.conftest import Bed, on
from tests.support.fair_clock import PATIENT
from tests.web.service.process import Service, problem, service

everywhere = on("valkey-async", "redis7-async", "cluster-async")
once = on("valkey-async")

SHOP = "https://shop.example"


def _close(bed: Bed, tracker: Any) -> None:
    bed.loop.run(tracker.close())


def site(bed: Bed, **options: Any) -> Service:
    """The service with pages, its lists on this test's namespace."""
    tag = f"{{{bed.namespace}}}"

    def make() -> Any:
        counter = AsyncLastSeenTracker.from_url(bed.url, f"{tag}:visitors", 600)
        visits = AsyncMinuteSetTracker.from_url(bed.url, f"{tag}:visits", 600)
        return counter, visits

    counter, visits = bed.loop.call(make)
    for tracker in (counter, visits):
        bed._open.append(partial(_close, bed, tracker))
    pages = Pages(**{"counter": counter, "visits": visits, "origins": (SHOP,), "friends_key": f"{tag}:friends:{{uid}}",
                     "burst": 1000} | options)  # fmt: skip
    s = service(bed, serves=pages)
    s.headers = {}
    return s


def new_visitor(s: Service) -> Service:
    """Another visitor of the same site."""
    return Service(s.bed, s.p, s.app, headers={})


# -- R1 ---------------------------------------------------------------------------------------------------------------


@everywhere
def test_the_counter_counts_visitors_not_views(bed: Bed) -> None:
    s = site(bed)
    visitors = [new_visitor(s) for _ in range(3)]
    assert [visitor.get("/counter") for visitor in visitors] == [{"online": 1}, {"online": 2}, {"online": 3}]
    assert visitors[0].ask("POST", "/counter").json() == {"online": 3}
    key = f"{{{bed.namespace}}}:visitors"
    members = bed.raw.zrange(key, 0, -1, withscores=True)
    assert len(members) == 3
    assert all(abs(score - time.time()) < 60 for _, score in members)


@everywhere
def test_a_visitor_silent_for_longer_than_the_window_is_offline_and_removed(bed: Bed) -> None:
    s = site(bed)
    key = f"{{{bed.namespace}}}:visitors"
    bed.raw.zadd(key, {"gone": time.time() - 601, "there": time.time() - 590})
    assert s.get("/counter") == {"online": 2}
    assert bed.raw.zscore(key, "gone") is None


@everywhere
def test_a_goodbye_removes_the_visitor_at_once(bed: Bed) -> None:
    s = site(bed)
    leaver = new_visitor(s)
    leaver.get("/counter")
    assert s.get("/counter") == {"online": 2}
    assert leaver.ask("POST", "/goodbye").status_code == 204
    assert s.get("/counter") == {"online": 1}
    assert new_visitor(s).ask("POST", "/goodbye").status_code == 204


@once
def test_a_beat_that_arrives_after_its_goodbye_does_not_bring_the_visitor_back(bed: Bed) -> None:
    s = site(bed)
    s.get("/counter")
    leaver = new_visitor(s)
    assert leaver.ask("POST", "/counter?page=one").json() == {"online": 2}
    assert leaver.ask("POST", "/goodbye?page=one").status_code == 204
    assert leaver.ask("POST", "/counter?page=one").json() == {"online": 1}
    assert s.get("/counter") == {"online": 1}
    assert s.get("/counter?page=one") == {"online": 1}, "another visitor's page may have the same name"
    assert leaver.ask("POST", "/counter?page=two").json() == {"online": 2}, "they are back"
    for bad in ("", "X", "x" * 33, "%00"):
        problem(s.ask("POST", f"/goodbye?page={bad}"), 422)
    for number in range(2 * LeftPages.CAPACITY):
        s.app.state.left_pages.add("x", str(number))
    assert len(s.app.state.left_pages) == LeftPages.CAPACITY


@once
def test_a_visitor_is_known_by_a_cookie_that_the_lists_do_not_contain(bed: Bed) -> None:
    s = site(bed)
    first = s.ask("GET", "/counter")
    cookie = first.headers["set-cookie"]
    assert re.fullmatch(r"presence_visitor=[\w-]{22}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax", cookie)
    assert "set-cookie" not in s.ask("GET", "/counter").headers
    value = cookie.partition("=")[2].partition(";")[0]
    assert value.encode() not in b"".join(bed.raw.zrange(f"{{{bed.namespace}}}:visitors", 0, -1))
    for bad in ("", "short", "x" * 23, "x" * 21 + "é"):
        other = new_visitor(s).ask("GET", "/counter", headers={"Cookie": f"presence_visitor={bad}".encode()})
        assert "set-cookie" in other.headers
    for headers in ({"X-Forwarded-Proto": "https"}, {"Origin": SHOP}):
        assert "; Secure" in new_visitor(s).ask("GET", "/counter", headers=headers).headers["set-cookie"]


GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


@pytest.mark.parametrize("path", ["/counter", "/visit"])
@once
def test_a_client_without_cookies_is_not_a_new_visitor_at_each_call(bed: Bed, path: str) -> None:
    s = site(bed)

    def calls(number: int, query: str = "", **headers: str) -> list[dict[str, Any]]:
        return [new_visitor(s).ask("POST", path + query, headers=headers).json() for _ in range(number)]

    answers = calls(100)
    assert answers[:3] == [{"online": 1}, {"online": 2}, {"online": 3}], "they may be three people at one address"
    assert answers[3:] == [{"online": 3, "not_counted": "no_cookie"}] * 97
    assert calls(1, **{"User-Agent": "another browser"}) == [{"online": 4}]
    assert calls(20, "?page=a1", **{"User-Agent": "a third"}) == [{"online": 5}] * 20, "one page is one visitor"
    person = new_visitor(s)
    assert person.ask("POST", path).json() == {"online": 5, "not_counted": "no_cookie"}
    assert person.get(path) == {"online": 6}, "with the cookie they are counted"
    for _ in range(5):
        person = new_visitor(s)
        person.headers = {"User-Agent": "keeps cookies"}
        person.ask("POST", path)
        person.ask("POST", path)
    assert person.get(path) == {"online": 11}, "visitors whose cookie came back are no longer new"


@once
def test_crawlers_are_counted_apart(bed: Bed) -> None:
    s = site(bed)
    assert s.get("/counter") == {"online": 1}
    bot = new_visitor(s)
    bot.headers = {"User-Agent": GOOGLEBOT}
    for path, online in (("/counter", 1), ("/visit", 0), ("/counter", 1)):
        answer = bot.ask("GET", path)
        assert answer.json() == {"online": online, "not_counted": "bot"}
        assert "set-cookie" not in answer.headers
    user = new_visitor(s)
    user.headers = {"User-Agent": GOOGLEBOT, "Authorization": f"Bearer {s.p.login('ada').token}"}
    assert user.get("/counter") == {"online": 2}, "a session is no crawler's, whatever the browser says"
    for _ in range(4):
        new_visitor(s).get("/counter")
    metrics = s.ask("GET", "/metrics", headers={"Authorization": "Bearer key.read"}).text
    counted = dict(re.findall(r'^presence_page_calls_total\{caller="(\w+)"\} (\d+)', metrics, re.MULTILINE))
    assert counted == {"visitor": "3", "bot": "3", "user": "1", "no_cookie": "2"}


def test_of_visitors_whose_cookie_never_came_back_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    new_visitors = NewVisitors()
    source = ("/visit", "192.0.2.1", "a browser")
    assert [new_visitors.admit(source, None, f"cookie-{n}") for n in range(5)] == [
        "cookie-0",
        "cookie-1",
        "cookie-2",
        None,
        None,
    ]
    new_visitors.came_back(source, "cookie-1")
    new_visitors.came_back(("/visit", "192.0.2.2", "a browser"), "cookie-1")
    assert new_visitors.admit(source, None, "cookie-5") == "cookie-5"
    now[0] += 600
    assert new_visitors.admit(source, None, "cookie-6") == "cookie-6", "the others have left the window"
    for number in range(10_001):
        new_visitors.admit(("/visit", str(number), ""), None, "cookie")
    assert len(new_visitors._sources) == 10_000


# -- R5 ---------------------------------------------------------------------------------------------------------------


@everywhere
def test_a_visitor_is_online_and_friends_are_found_inside_redis(bed: Bed) -> None:
    s = site(bed)
    people = {}
    for uid in ("ada", "emeka", "grace", "lin"):
        people[uid] = new_visitor(s)
        people[uid].headers = {"Authorization": f"Bearer {s.p.login(uid).token}"}
    for uid in ("ada", "emeka", "grace"):
        people[uid].ask("POST", "/visit")
    assert people["ada"].get("/visit") == {"online": 3}
    online = people["ada"].get("/online")
    assert (online["online"], sorted(online["members"])) == (3, ["ada", "emeka", "grace"])
    key = f"{{{bed.namespace}}}:friends:ada"
    bed.raw.sadd(key, "grace", "lin", "nobody")
    assert people["ada"].get("/online/friends") == {"online": 1, "members": ["grace"]}
    bed.raw.delete(key)
    bed.raw.zadd(key, {"emeka": 1, "lin": 2})
    assert people["ada"].get("/online/friends")["members"] == ["emeka"]
    assert people["lin"].get("/online/friends")["members"] == []


@everywhere
def test_a_visit_is_in_the_set_of_this_minute_which_expires_after_its_window_within_the_hour(bed: Bed) -> None:
    s = site(bed)
    s.ask("POST", "/visit")
    [key] = list(bed.raw.scan_iter(match=f"{{{bed.namespace}}}:visits*", count=5000))
    assert int(key.rpartition(b":")[2]) in {int(time.time() // 60), int(time.time() // 60) - 1}
    assert 600 < bed.raw.ttl(key) < 3600
    old = int(time.time() // 60) - 10
    bed.raw.sadd(f"{{{bed.namespace}}}:visits:{old}", "long gone")
    bed.raw.sadd(f"{{{bed.namespace}}}:visits:{old + 2}", "there")
    assert s.get("/visit") == {"online": 2}


@once
def test_names_are_only_for_signed_in_visitors(bed: Bed) -> None:
    s = site(bed)
    login = s.p.login("ada")
    assert s.ask("POST", "/visit").json() == {"online": 1}
    assert s.get("/online") == {"online": 1, "members": None}
    problem(s.ask("GET", "/online/friends"), 401)
    by_cookie = new_visitor(s)
    by_cookie.cookies.set("presence", login.token)
    assert by_cookie.get("/visit") == {"online": 2}
    assert "ada" in by_cookie.get("/online")["members"]
    s.p.kick("ada", by="staff", reason="test")
    assert by_cookie.get("/online")["members"] is None
    public = site(bed, public=True)
    assert len(public.get("/online")["members"]) == 2


@once
def test_a_visit_with_a_token_is_a_heartbeat(bed: Bed) -> None:
    s = site(bed)
    s.p.freeze()
    login = s.p.login("ada")
    s.p.advance(60)
    s.ask("POST", "/visit", headers={"Authorization": f"Bearer {login.token}"})
    [now] = s.p.sessions("ada")
    assert (now.last_seen - login.session.last_seen).total_seconds() == 60


@once
def test_of_several_cookies_the_first_live_session_visits(bed: Bed) -> None:
    s = site(bed)
    live, ended, kicked = (s.p.login("ada") for _ in range(3))
    s.p.logout("ada", ended.session.session_id)
    s.p.kick("ada", kicked.session.session_id, by="staff", reason="test")
    for tokens, is_ada in (
        (["", ended.token, live.token], True),
        (["junk", live.token], True),
        ([live.token, kicked.token], False),
    ):
        cookie = "; ".join(f"presence={token}" for token in tokens)
        members = s.ask("GET", "/online", headers={"Cookie": cookie}).json()["members"]
        assert (members is not None) == is_ada, tokens


# -- who may ----------------------------------------------------------------------------------------------------------


@once
def test_staff_on_behalf_of_a_user_see_their_friends_and_do_not_make_the_user_online(bed: Bed) -> None:
    s = site(bed)
    bed.raw.sadd(f"{{{bed.namespace}}}:friends:ada", "bob")
    support = s.p.login("ada", on_behalf_by="sam@support", reason="ticket 7")
    for token in (s.p.login("bob").token, support.token):
        caller = Service(bed, s.p, s.app, headers={"Authorization": f"Bearer {token}"})
        for path in ("/visit", "/counter"):
            assert caller.ask("POST", path).status_code == 200
    assert caller.get("/online/friends")["members"] == ["bob"]
    members = caller.get("/online")["members"]
    assert len(members) == 2
    assert "ada" not in members
    assert not bed.raw.zscore(f"{{{bed.namespace}}}:visitors", "ada")


@once
def test_only_pages_of_allowed_origins_are_served(bed: Bed) -> None:
    s = site(bed)
    good = s.ask("POST", "/visit", headers={"Origin": SHOP})
    assert good.headers["access-control-allow-origin"] == SHOP
    assert good.headers["access-control-allow-credentials"] == "true"
    assert s.ask("POST", "/visit", headers={"Origin": "http://localhost"}).status_code == 200
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": SHOP + ".evil.example"},
                    {"Sec-Fetch-Site": "cross-site"}):  # fmt: skip
        refused = s.ask("POST", "/visit", headers=headers)
        problem(refused, 403)
        assert refused.headers.get("access-control-allow-origin") != headers.get("Origin", "-")
    before = s.ask("OPTIONS", "/visit", headers={"Origin": SHOP, "Access-Control-Request-Method": "POST"})
    assert before.status_code == 200
    for origin, method in ((SHOP + ".evil.example", "POST"), ("null", "POST"), (SHOP, "DELETE")):
        asked = {"Origin": origin, "Access-Control-Request-Method": method}
        problem(s.ask("OPTIONS", "/visit", headers=asked), 403)
    api = s.ask("OPTIONS", "/v1/kicks", headers={"Origin": SHOP, "Access-Control-Request-Method": "POST"})
    assert "access-control-allow-origin" not in api.headers


@once
def test_an_address_with_too_many_requests_has_to_wait(bed: Bed) -> None:
    s = site(bed, burst=3, per_second=0.001, proxies=Proxies(["127.0.0.1"]))
    assert [s.ask("POST", "/counter").status_code for _ in range(4)] == [200, 200, 200, 429]
    answer = s.ask("POST", "/counter")
    problem(answer, 429)
    assert int(answer.headers["retry-after"]) == 3000
    other = {"X-Forwarded-For": "2001:db8::1"}
    same = {"X-Forwarded-For": "2001:db8::ffff"}
    assert [s.ask("GET", "/online", headers=headers).status_code for headers in (other, same, other, same)] == [
        200
    ] * 3 + [429]
    assert s.ask("GET", "/v1/counts", headers={"Authorization": "Bearer key.read"}).status_code == 200


def test_an_address_may_call_again_after_its_window_and_is_then_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_800_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    limiter = AddressLimiter(per_second=2.0, burst=4)

    def passes(ip: str) -> bool:
        try:
            limiter.check(ip)
        except HTTPException:
            return False
        return True

    assert [passes("192.0.2.1") for _ in range(5)] == [True] * 4 + [False]
    assert passes("192.0.2.2")
    now[0] += 2.5
    assert passes("192.0.2.1"), "of the last window a part counts"
    now[0] -= 3600
    assert passes("192.0.2.1"), "a clock that is set back locks no address out"
    now[0] += 4000
    for number in range(100):
        passes(f"192.0.2.{number}")
    storage = limiter._limiter.storage
    assert isinstance(storage, MemoryStorage)
    now[0] += 60
    until = time.monotonic() + PATIENT
    while len(storage.storage) > 2:
        passes("192.0.2.1")
        assert time.monotonic() < until
        time.sleep(0.02)


@once
def test_the_script_is_short_and_works_on_every_page(bed: Bed) -> None:
    s = site(bed)
    answer = s.ask("GET", "/presence.js", headers={"Origin": "https://anywhere.example"})
    assert answer.text == SCRIPT
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    for word in ("sendBeacon", "visibilitychange", "setInterval", "document.hidden"):
        assert word in SCRIPT
    assert len(SCRIPT.splitlines()) <= 14
    assert not [
        path for path in service(bed).get("/openapi.json")["paths"] if not path.startswith(("/v1", "/healthz", "/r"))
    ]


@pytest.mark.parametrize(
    ("options", "field"),
    [({"origins": ["shop.example"]}, "origins"), ({"origins": ["https://shop.example/"]}, "origins"),
     ({"origins": ["*"]}, "origins"), ({"friends_key": "friends"}, "friends_key"),
     *(({"origins": [origin]}, "origins") for origin in (
         "https://Shop.example", "https://shop.example:443", "http://shop.example:80", "https://größe.example",
         "https://sam@shop.example", "https://shop.example:", "https://shop example", "https://[::1]:443")),
     ({"cookie": "a;b"}, "cookie"), ({"cookie": ""}, "cookie")],
)  # fmt: skip
def test_invalid_requests_of_pages_are_refused(options: dict[str, Any], field: str) -> None:
    missing: Any = None
    with pytest.raises(InvalidArgument) as caught:
        Pages(counter=missing, visits=missing, **options)
    assert caught.value.field == field


def test_origins_that_browsers_send_are_accepted() -> None:
    missing: Any = None
    origins = ("https://shop.example", "http://shop.example:443", "https://shop.example:8443", "http://localhost:8080",
               "http://127.0.0.1", "http://[::80]", "https://[::1]:8443", "https://xn--gre-6ka8i.example")  # fmt: skip
    assert Pages(counter=missing, visits=missing, origins=origins).origins == origins
