"""What a record keeps of an address and a user agent, and logins whose address cannot be read."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from presence_core import InvalidArgument, Login, LoginRefused, SessionFilter, Settings
from tests.conftest import Bed, on

BY: dict[str, Any] = {"by": "sam", "reason": "abuse"}
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"


@on("valkey", "cluster-sync")
@pytest.mark.parametrize(("record", "v4", "v6"), [("network", "203.0.113.0", "2001:db8:1::"), ("none", None, None)])
def test_a_record_has_no_more_of_an_address_than_the_setting_says(
    bed: Bed, record: Any, v4: str | None, v6: str | None
) -> None:
    p = bed.connect(record_address=record, record_user_agent=False)
    single = p.login("ada", ip="203.0.113.77", user_agent=CHROME)
    batch = p.login_many([{"uid": "bob", "ip": "2001:db8:1:2::3", "user_agent": CHROME}])[0]
    assert isinstance(batch, Login)
    for login in (single, batch):  # the login's own answer has it so, too
        assert login.session == p.get(login.session.uid, login.session.session_id)
    assert (single.session.ip, batch.session.ip) == (v4, v6)
    assert (single.session.user_agent, single.session.os, single.session.browser) == (None, "Linux", "Chrome")
    seen = p.validate(single.token, ip="2001:db8:1:7::9").session
    assert seen is not None
    assert seen.last_ip == (v6 or None)
    kicked = p.kick("ada", by="sam", reason="test").kicked
    assert [session.ip for session in kicked] == [v4]
    stored = repr(bed.dump())
    assert "AppleWebKit" not in stored
    for address in (b"\xcb\x00\x71\x4d", bytes.fromhex("20010db8000100020000000000000003"),
                    bytes.fromhex("20010db8000100070000000000000009")):  # fmt: skip
        assert repr(address)[2:-1] not in stored
    if record == "network":
        assert p.list_sessions(SessionFilter(ip="2001:db8:1::/48")).items == [p.get("bob", batch.session.session_id)]


@on("valkey")
def test_block_rules_see_the_whole_address_of_which_a_record_has_a_part(bed: Bed) -> None:
    p = bed.connect(record_address="none")
    p.add_block_rule(network="203.0.113.77", expected=0, **BY)
    with pytest.raises(LoginRefused, match="network"):
        p.login("ada", ip="203.0.113.77")
    [refused] = p.login_many([{"uid": "ada", "ip": "203.0.113.77:4711"}])
    assert isinstance(refused, LoginRefused)
    p.login("ada", ip="203.0.113.78")


@on("valkey", "cluster-sync")
def test_logins_without_an_address_are_counted_while_a_rule_names_a_network(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    p = bed.connect()

    def counted() -> list[str]:
        return [finding.text for finding in p.health().findings if finding.subject == "addresses"]

    p.login("ada")
    p.add_block_rule(app="shop", app_version="1", expected=0, **BY)
    p.login("ada", ip="unknown")
    assert counted() == []
    p.add_block_rule(network="203.0.113.0/24", expected=0, **BY)
    with caplog.at_level(logging.WARNING):
        p.login("ada", ip="unknown")
        p.login("ada", ip="198.51.100.7")
        p.login_many([{"uid": "bob"}, {"uid": "eve", "ip": "198.51.100.7"}])
    assert [text.partition(" logins")[0] for text in counted()] == ["2"]
    lines = [record for record in caplog.records if getattr(record, "presence_event", "") == "login_without_address"]
    assert len(lines) == 1, "once a minute"


@on("valkey")
def test_a_site_may_refuse_logins_without_an_address_while_a_rule_names_a_network(bed: Bed) -> None:
    p = bed.connect(no_address="refuse")
    p.login("ada")
    p.add_block_rule(network="203.0.113.0/24", expected=0, **BY)
    before = p.counts().totals
    for ip in (None, "", "unknown", "300.1.1.1"):
        with pytest.raises(LoginRefused, match="an address that cannot be read") as refused:
            p.login("eve", ip=ip)
        assert refused.value.code == "no_address"
        [answer] = p.login_many([{"uid": "eve", "ip": ip}])
        assert isinstance(answer, LoginRefused)
    assert p.counts().totals == before
    p.login("eve", ip="198.51.100.7:443")


def test_the_settings_of_visitors_are_words() -> None:
    for field in ("unfit", "no_address", "record_address"):
        bad: dict[str, Any] = {field: "maybe"}
        with pytest.raises(InvalidArgument, match=f"^{field} must be "):
            Settings(**bad)
    read = Settings.from_env({"PRESENCE_RECORD_ADDRESS": "network", "PRESENCE_RECORD_USER_AGENT": "no",
                              "PRESENCE_NO_ADDRESS": "refuse", "PRESENCE_UNFIT": "refuse"})  # fmt: skip
    assert (read.record_address, read.record_user_agent) == ("network", False)
    assert (read.no_address, read.unfit) == ("refuse", "refuse")
