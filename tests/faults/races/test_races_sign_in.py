"""Staff require a new sign-in while sessions are in use: once the call has returned, nothing passes until the visitor
has authenticated again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from presence_core import Login, LoginRefused
from tests.conftest import Bed, on
from tests.faults.races.test_races import RACED, _start_together
from tests.support.soak import size

TOGETHER = size(400, 4_000)
"""Number of interleavings over all backends of the test below."""

BY: dict[str, Any] = {"by": "staff", "reason": "race"}


@dataclass
class _Device:
    """A session in use, and the latest token that its visitor has."""

    uid: str
    session_id: str
    token: str
    is_demanded: bool = False  #: require_sign_in has returned


@on(*RACED)
def test_a_required_sign_in_that_races_every_other_call_refuses_until_it_is_met(bed: Bed) -> None:
    count = TOGETHER // len(RACED)
    staff, site = bed.connect(), bed.connect()
    devices = []
    for login in staff.login_many({"uid": f"u{n}", "session_id": f"session-{n}"} for n in range(count)):
        assert isinstance(login, Login)
        devices.append(_Device(login.session.uid, login.session.session_id, login.token))
    at = [0]
    mistakes: list[str] = []

    def demand() -> int:
        sessions = 0
        for n, device in enumerate(devices):
            at[0] = n
            only = device.session_id if n % 2 else None
            sessions += len(staff.require_sign_in(device.uid, only, **BY).sessions)
            device.is_demanded = True
        at[0] = count
        return sessions

    def be_used(ways: list[Callable[[_Device], bool]]) -> int:
        passed, rng = 0, random.Random(len(ways))
        while at[0] < count:
            device = devices[max(0, min(count - 1, at[0] + rng.choice((-1, 0, 0, 0, 1))))]
            was_demanded = device.is_demanded
            live = rng.choice(ways)(device)
            if live and was_demanded:
                mistakes.append(f"{device.session_id} passes")
            passed += live
        return passed

    def validate(device: _Device) -> bool:
        return bool(site.validate(device.token, ip=f"192.0.2.{random.randrange(250)}"))

    def validate_by_id(device: _Device) -> bool:
        return bool(site.validate_session(device.uid, device.session_id, max_age=random.choice((None, 3600))))

    def rotate(device: _Device) -> bool:
        try:
            device.token = site.rotate(device.token).token
        except LoginRefused:
            return False
        return True

    def log_in_again(device: _Device) -> bool:
        device.token = site.login(device.uid, session_id=device.session_id, methods=["pwd"]).token
        return False

    sessions, *passed = _start_together(
        demand,
        lambda: be_used([validate, validate_by_id]),
        lambda: be_used([rotate, log_in_again, validate]),
    )
    assert mistakes == []
    assert sessions == count
    assert sum(passed) > 0, "no session was used: nothing raced"
    assert not any(validate_by_id(device) for device in devices)
    assert staff.counts().sessions == count
    assert len(staff.audit(limit=1000).items) == min(count, 1000)


@on(*RACED)
def test_a_new_authentication_that_races_a_demand_meets_only_those_before_it_began(bed: Bed) -> None:
    staff, site = bed.connect(), bed.connect()
    outcomes = set()
    for n in range(size(60, 600)):
        first = site.login(f"u{n}")
        jobs = (
            partial(site.reauthenticated, first.token, methods=["pwd"], began=first.session.login_at),
            partial(staff.require_sign_in, first.session.uid, **BY),
        )
        if n % 3 == 0:
            demanded, new = jobs[1](), jobs[0]()
        else:
            new, demanded = _start_together(*jobs) if n % 3 == 1 else (jobs[0](), jobs[1]())
        assert len(demanded.sessions) == 1
        assert not site.validate(first.token), "the old token opens nothing"
        refused = site.validate(new.token)
        assert refused.code == "sign_in_required", "the demand came after the sign-in began"
        outcomes.add(new.session.sign_in_required_at is not None)
        done = site.reauthenticated(new.token, methods=["pwd"])
        assert site.validate(done.token)
        assert [site.validate(token).code for token in (first.token, new.token)] == ["unknown", "unknown"]
    assert outcomes == {True, False}, "in both orders"


@on(*RACED)
def test_of_many_authentications_with_one_token_one_succeeds(bed: Bed) -> None:
    clients = [bed.connect() for _ in range(4)]
    for n in range(size(20, 200)):
        token = clients[0].login(f"u{n}").token
        clients[0].require_sign_in(f"u{n}", **BY)

        def authenticate(client: Any, token: str = token) -> str | None:
            try:
                new: str = client.reauthenticated(token, methods=["pwd"]).token
            except LoginRefused:
                return None
            return new

        answers = _start_together(*(lambda client=client: authenticate(client) for client in clients))
        [new] = [answer for answer in answers if answer]
        assert clients[1].validate(new)
        assert not clients[2].validate(token)
