"""The requests of a site: login, validate, heartbeat."""

from __future__ import annotations

from benchmarks.measure import Result, Side, Target, compare, server_target
from benchmarks.methods.bare import Bare, BareSession
from benchmarks.stage import Stage, Ticket


def validate(stage: Stage) -> Result:
    """validate (touch), compared with EVALSHA of `return 1` with validate's six keys, by redis.Redis.evalsha."""
    result = _validate(stage, "validate", validate.__doc__, decode=False)
    assert result.ratio is not None
    result.targets.append(Target("× bare EVALSHA", 1.5, result.ratio))
    return result


def validate_decoded(stage: Stage) -> Result:
    """validate (touch) and read its `.session`, compared with the same EVALSHA of `return 1`."""
    return _validate(stage, "validate + .session", validate_decoded.__doc__, decode=True)


def _validate(stage: Stage, name: str, compared: str | None, *, decode: bool) -> Result:
    presence, keys, ticket = stage.presence, stage.keys, stage.ticket()
    names = (
        keys.sessions,
        keys.deadlines,
        keys.users,
        keys.closing,
        keys.meta,
        keys.record(ticket.uid, ticket.session_id),
    )

    def ours(token: str) -> None:
        validation = presence.validate(token)
        assert validation.session if decode else validation

    return compare(
        stage, name, compared, Side(ours, lambda: stage.ticket().token), Bare(stage).script(names), runs=2000
    )


def heartbeat(stage: Stage) -> Result:
    """heartbeat of one session, compared with EVALSHA of `return 1` with its five keys."""
    presence, keys, example = stage.presence, stage.keys, stage.ticket()
    names = (keys.sessions, keys.deadlines, keys.users, keys.meta, keys.record(example.uid, example.session_id))

    def ours(ticket: Ticket) -> None:
        assert presence.heartbeat(ticket.uid, ticket.session_id)

    return compare(
        stage, "heartbeat", heartbeat.__doc__, Side(ours, stage.ticket), Bare(stage).script(names), runs=1000
    )


def heartbeats_1000(stage: Stage) -> Result:
    """heartbeats of 1000 random sessions in one call, compared with one pipeline of 1000 × (ZADD XX, HSET)."""
    return _heartbeats(stage, 1000, 40, heartbeats_1000.__doc__)


def heartbeats_5000(stage: Stage) -> Result:
    """heartbeats of 5000 random sessions in one call, compared with one pipeline of 5000 × (ZADD XX, HSET)."""
    return _heartbeats(stage, 5000, 15, heartbeats_5000.__doc__)


def _heartbeats(stage: Stage, count: int, runs: int, compared: str | None) -> Result:
    presence, bare = stage.presence, Bare(stage)

    def ours(refs: list[str]) -> None:
        assert presence.heartbeats(refs) == []

    def refs() -> list[str]:
        return stage.refs(count)

    result = compare(stage, f"heartbeats ×{count}", compared, Side(ours, refs), Side(bare.heartbeats, refs),
                     runs=runs, units=count, unit="refs")  # fmt: skip
    assert result.ours is not None
    result.targets.append(Target("refs/s", 120_000, result.ours.rate, at_most=False))
    return result


def login(stage: Stage) -> Result:
    """login of a new user, compared with a pipeline of the bare writes: ZADD ×3, SADD, HSET of ten plain fields,
    PEXPIRE."""
    presence, bare = stage.presence, Bare(stage)
    result = compare(
        stage,
        "login",
        login.__doc__,
        Side(lambda row: presence.login(**row), lambda: stage.new_rows(1)[0]),
        Side(bare.log_in, lambda: bare.sessions(stage.new_rows(1)), bare.take_away),
        runs=400,
    )
    return server_target(result, 44)


def login_many(stage: Stage) -> Result:
    """login_many of 2000 rows, compared with the same bare writes in pipelines of 500 sessions."""
    presence, bare, count = stage.presence, Bare(stage), 2000
    step = 500

    def pipelines(sessions: list[BareSession]) -> None:
        for first in range(0, count, step):
            bare.log_in(sessions[first : first + step])

    result = compare(
        stage,
        "login_many",
        login_many.__doc__,
        Side(presence.login_many, lambda: stage.new_rows(count)),
        Side(pipelines, lambda: bare.sessions(stage.new_rows(count)), bare.take_away),
        runs=10,
        units=count,
        unit="rows",
    )
    assert result.ours is not None
    result.figures["load, rows/s"] = round(stage.size / stage.load_seconds)
    result.targets.append(Target("rows/s", 16_000, result.ours.rate, at_most=False))
    return result
