"""`presence list`, `people` and `facets`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from presence_core.operations.search import list_sessions, shard_merge
from tests.cli.conftest import Run, table_of
from tests.conftest import on
from tests.support.facade import P

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


def _users(out: str) -> list[str]:
    """The second column of a list of sessions."""
    return [line.split()[2] for line in out.splitlines()[1:] if re.match(r"\d{4}-\d\d-\d\d ", line)]


def _cursor(out: str) -> str:
    return out.partition("Next page: repeat the command with --cursor ")[2].strip()


def _five(p: P) -> None:
    p.freeze()
    rows: list[dict[str, Any]] = [
        {
            "uid": "ada",
            "name": "Ada Lovelace",
            "aliases": ["ada@example.org"],
            "device": "phone",
            "ip": "192.0.2.7",
            "methods": ["pwd", "otp"],
        },
        {"uid": "emeka", "name": "Emeka Okafor", "device": "phone", "app": "shop", "app_version": "2.1"},
        {"uid": "grace", "name": "Grace Hopper", "device": "desk", "attributes": {"tenant": "navy", "floor": 3}},
        {"uid": "jose", "name": "José Núñez", "device": "desk", "ip": "2001:db8::9"},
        {"uid": "lin", "user_agent": FIREFOX},
    ]
    for row in rows:
        p.login(**row)
        p.advance(1)


@on("valkey-sync")
def test_the_list_takes_every_filter(p: P, run: Run) -> None:
    _five(p)
    third = str(p.sessions("grace")[0].login_at.timestamp())
    cases: list[tuple[tuple[str, ...], list[str]]] = [
        ((), ["lin", "jose", "grace", "emeka", "ada"]),
        (("--text", "oka"), ["emeka"]),
        (("--uid", "ada"), ["ada"]),
        (("--name-prefix", "nunez"), ["jose"]),
        (("--name-contains", "ace"), ["grace", "ada"]),
        (("--ip", "192.0.2.0/24"), ["ada"]),
        (("--device", "phone"), ["emeka", "ada"]),
        (("--app", "shop", "--app-version", "2.1"), ["emeka"]),
        (("--os", "Linux", "--browser", "Firefox"), ["lin"]),
        (("--logged-in-after", third), ["lin", "jose", "grace"]),
        (("--logged-in-before", third, "--device", "phone"), ["emeka", "ada"]),
        (("--attribute", "tenant=navy", "--attribute", "floor=3"), ["grace"]),
        (("--idle-for", "0", "--logged-in-after", "2020-01-31"), ["lin", "jose", "grace", "emeka", "ada"]),
        (("--seen-within", "999", "--device", "phone"), ["emeka", "ada"]),
        (("--app-version-below", "2.10"), ["emeka"]),
        (("--method", "pwd", "--method", "otp"), ["ada"]),
        (("--mfa",), ["ada"]),
        (("--no-mfa", "--device", "phone"), ["emeka"]),
        (("--device", "phone", "--without", "app=shop"), ["ada"]),
        (("--device", "phone", "--without", "method=pwd", "--without", "mfa=true"), ["emeka"]),
        (("--without", f"logged-in-after={third}", "--without", "attribute=floor=3"), ["lin", "jose", "emeka", "ada"]),
    ]
    for words, users in cases:
        code, out, _ = run("list", *words)
        assert (code, _users(out)) == (0, users), words
        assert re.fullmatch(rf"{len(users)} of (about )?{len(users)}", out.splitlines()[-1]), words
        assert run("list", *words, "--count") == (0, f"{len(users)}\n", ""), words
    assert run("list", "--count", "--json") == (0, '{"count": 5}\n', "")


@on("valkey-sync")
def test_a_table_of_sessions_shows_the_known_fields(p: P, run: Run) -> None:
    ada = p.login("ada", name="Ada Lovelace", device="phone", app="shop", user_agent=FIREFOX, ip="192.0.2.7")
    assert table_of(run("list", "--uid", "ada")[1]) == [
        ["LOGIN (UTC)", "USER", "NAME", "DEVICE", "APP", "BROWSER", "ADDRESS", "SESSION"],
        ["TIME", "ada", "Ada Lovelace", "phone", "shop", "Firefox", "192.0.2.7", ada.session.session_id],
        ["1 of 1"],
    ]


@on("valkey-sync")
def test_explain_prints_one_sentence(p: P, run: Run) -> None:
    _five(p)
    explained = {
        "--uid ada": "Reads about 1 sessions of the user, for a page of 50, with no further test. About 1 match.",
        "--uid ada --device x --app y": "Reads about 1 sessions of the user, for a page of 50, then tests device, app. "
        "About 1 match.",
        "--device fridge": "No live session has this value, so nothing is searched.",
        "--device phone": "Reads about 5 sessions of the list, newest first, for a page of 50, then tests device. "
        "About 2 match.",
    }
    for words, sentence in explained.items():
        assert run("list", *words.split(), "--explain") == (0, sentence + "\n", ""), words
    plan = json.loads(run("list", "--name-prefix", "love", "--explain", "--json")[1])
    assert (plan["index"], plan["tests"]) == ("name", [])


@on("valkey-sync", "cluster-sync")
def test_the_list_is_paged_by_cursor(p: P, run: Run) -> None:
    p.freeze()
    p.login_many([{"uid": f"u{number}", "device": "phone"} for number in range(1234)])
    code, out, _ = run("list")
    assert code == 0
    assert out.splitlines()[-2] == "50 of 1,234"
    seen = []
    words: tuple[str, ...] = ("list", "--device", "phone", "--limit", "500")
    cursor = ""
    for number in (500, 500, 234):
        code, out, _ = run(*words, *(("--cursor", cursor) if cursor else ()))
        assert code == 0
        assert re.search(rf"^{number} of (about )?1,234$", out, re.MULTILINE)
        seen += _users(out)
        cursor = _cursor(out)
    assert not cursor
    assert len(set(seen)) == 1234
    foreign = _cursor(run("list", "--limit", "1")[1])
    assert run(*words, "--cursor", foreign) == (
        2, "", "cursor must be one that list_sessions gave for this filter.\n"
    )  # fmt: skip
    p.sweep()
    last = json.loads(run("list", "--limit", "1000", "--json")[1])["next_cursor"]
    for uid in _users(run("list", "--limit", "1000", "--cursor", last)[1]):
        p.kick(uid, by="Bob", reason="test")
    assert run("list", "--cursor", last) == (0, "There are no more sessions.\n", "")


@on("valkey-sync")
def test_a_short_page_says_how_much_was_searched(p: P, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_sessions, "BUDGET", 40)
    monkeypatch.setattr(list_sessions, "PROBE", 20)
    monkeypatch.setattr(shard_merge, "STEP", 10)
    p.freeze()
    for number in range(200):
        p.login(f"u{number}", attributes={"rare": number in (3, 199)})
        p.advance(1)
    words = ("list", "--attribute", "rare=true")
    code, out, _ = run(*words)
    assert code == 0
    assert _users(out) == ["u199"]
    assert re.search(r"^1 of about [\d,]+$", out, re.MULTILINE)
    assert re.search(r"^Matches are rare: [\d,]+ entries read, \d+ % of the list so far\.$", out, re.MULTILINE)
    seen, empty = _users(out), 0
    while cursor := _cursor(out):
        code, out, _ = run(*words, "--cursor", cursor)
        assert code == 0
        seen += _users(out)
        empty += out.startswith("No match so far.\n")
    assert seen == ["u199", "u3"]
    assert empty


@on("valkey-sync")
def test_an_empty_result_suggests_another_command(p: P, run: Run) -> None:
    empty = "No one is online.\nSee logins as they happen: presence watch. See ended sessions: presence ended\n"
    assert run("list") == (0, empty, "")
    assert run("list", "--count") == (0, "0\n", "")
    assert run("facets", "device") == (0, "No one is online.\n", "")
    _five(p)
    assert run("list", "--device", "fridge") == (
        1,
        "No live session matches.\n"
        "Use fewer filters, or search people who are offline: presence people TEXT, presence ended USER\n",
        "",
    )
    assert run("list", "--device", "fridge", "--count") == (0, "0\n", "")
    assert run("people", "zoe") == (
        1,
        "No uid, name or alias matches zoe\n"
        "Type fewer letters, or search for a part of a name among those online: presence list --name-contains\n",
        "",
    )
    assert run("show", "zoe") == (
        1,
        "zoe is not online.\n"
        "See when they were last seen: presence people USER. See why their sessions ended: presence ended USER\n",
        "",
    )
    assert run("people", "zoe", "--json") == (1, "[]\n", "")
    assert json.loads(run("list", "--device", "fridge", "--json")[1])["items"] == []


@on("valkey-sync")
def test_people_are_found_online_and_offline(p: P, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _five(p)
    p.login("ada", device="desk")
    [emeka] = p.sessions("emeka")
    p.logout("emeka", emeka.session_id)
    heading = ["LAST SEEN (UTC)", "USER", "NAME", "ONLINE", "ALIASES"]
    found = ["TIME", "ada", "Ada Lovelace", "2 sessions", "ada@example.org"]
    assert table_of(run("people", "ADA")[1]) == [heading, found]
    assert table_of(run("people", "oka")[1]) == [heading, ["TIME", "emeka", "Emeka Okafor", "-", "-"]]
    [person] = json.loads(run("people", "oka", "--json")[1])
    assert (person["uid"], person["online"], person["sessions"]) == ("emeka", False, 0)
    first = ["These are the first 1; there may be more."]
    assert table_of(run("people", "a", "--limit", "1")[1]) == [heading, found, first]
    assert run("people", "a", "--limit", "101")[0] == 2
    monkeypatch.setenv("PRESENCE_INDEXES", "ip,uid")
    missing = "Some people cannot be found, because these indexes are off: alias, name"
    assert run("people", "ada")[1].splitlines()[-1] == missing


@on("valkey-sync", "cluster-sync")
def test_facets_are_counted(p: P, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _five(p)
    counted = [["DEVICE", "SESSIONS"], ["desk", "2"], ["phone", "2"]]
    assert table_of(run("facets", "device")[1]) == [*counted, ["2 values in 4 of 5 live sessions, counted at TIME UTC"]]
    p.sweep()
    assert table_of(run("facets", "app")[1]) == [
        ["APP", "SESSIONS"],
        ["shop", "1"],
        ["1 value in 1 of 5 live sessions, counted at TIME UTC"],
    ]
    assert json.loads(run("facets", "device", "--json")[1]) == {"desk": 2, "phone": 2}
    code, out, err = run("facets", "name")
    assert (code, out) == (2, "")
    assert err.startswith("field must be one of device, app, app_version, os, browser, country, network ")
    monkeypatch.setenv("PRESENCE_FACETS", "tenant")
    assert run("facets", "tenant")[1] == (
        "None of 5 live sessions has a value for tenant.\n"
        "If PRESENCE_FACETS is new, count what is there already: presence reindex\n"
    )
    assert run("reindex") == (
        0,
        "Indexes: uid, name, alias, ip, idp. Counted: device, app, app_version, os, browser, country, network, "
        "tenant. Repaired 0 entries.\n",
        "",
    )
    assert json.loads(run("facets", "tenant", "--json")[1]) == {"navy": 1}


@on("valkey-sync")
def test_the_list_is_shown_last_seen_first(p: P, run: Run) -> None:
    _five(p)
    p.heartbeat("ada", p.sessions("ada")[0].session_id)
    assert _users(run("list", "--order", "last_seen")[1]) == ["ada", "lin", "jose", "grace", "emeka"]
    first = run("list", "--order", "last_seen", "--device", "phone", "--limit", "1")[1]
    assert _users(first) == ["ada"]
    words = ("list", "--device", "phone", "--cursor", _cursor(first))
    assert _users(run(*words, "--order", "last_seen")[1]) == ["emeka"]
    assert run(*words) == (2, "", "cursor must be one that list_sessions gave for this order.\n")
    assert run("list", "--order", "last_seen", "--name-prefix", "love", "--explain")[0] == 0
    assert "invalid choice: 'seen'" in run("list", "--order", "seen")[2]
