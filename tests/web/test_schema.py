"""What the OpenAPI schema allows, and some of what it does not, is answered as the schema says, never with 5xx."""

from __future__ import annotations

import contextlib
from typing import Any, cast

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from presence_core import Presence, Settings
from presence_core.web.keys import make_key
from tests.conftest import Bed, on
from tests.fair_clock import PATIENT
from tests.web_service import served

EXAMPLES = 5
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@on("valkey-sync")
def test_no_request_of_the_schema_is_answered_with_5xx(bed: Bed) -> None:
    with Presence.from_url(bed.url, Settings(namespace=bed.namespace, timeout=PATIENT)) as p:
        p.login("ada", session_id="session-1", device="phone")
        _, key = make_key(p, "any", ["record", "read", "kick"])
    asked = 0
    with served(bed.url, bed.namespace, "--origins", "--friends-key", "friends:{uid}") as at:
        schema = schemathesis.openapi.from_url(f"{at}/openapi.json").exclude(path="/v1/events")  # that one has no end
        for found in schema.get_all_operations():
            operation: Any = cast(Any, found).ok()
            for mode in GenerationMode:

                @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
                          phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
                @given(case=operation.as_strategy(mode))
                def ask(case: Any) -> None:
                    nonlocal asked
                    asked += 1
                    case.call_and_validate(at, headers={"Authorization": f"Bearer {key}"}, checks=CHECKS)

                with contextlib.suppress(Unsatisfiable):  # an address that takes nothing cannot be asked wrongly
                    ask()
    assert asked > 200
