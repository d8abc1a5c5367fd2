"""Requests that the OpenAPI schema allows, and some that it does not, get the responses of the schema, never 5xx."""

from __future__ import annotations

import contextlib
from typing import Any, cast

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from presence_core import Presence, Settings
from presence_core.web.service.api_keys import make_key
from tests.conftest import Bed, on
from tests.support.fair_clock import PATIENT
from tests.support.soak import size
from tests.web.service.process import served_on_thread

EXAMPLES = size(2, 5)


@on("valkey-sync")
def test_no_request_of_the_schema_is_answered_with_5xx(bed: Bed) -> None:
    # Imported here: it takes a second, and every process collects this file.
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    conform = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]
    every = [not_a_server_error, *conform]
    with Presence.from_url(bed.url, Settings(namespace=bed.namespace, timeout=PATIENT)) as p:
        p.login("ada", session_id="session-1", device="phone")
        _, key = make_key(p, "any", ["record", "read", "kick"])
    asked = 0
    with served_on_thread(bed.url, bed.namespace, origins=(), friends_key="friends:{uid}") as at:
        schema = schemathesis.openapi.from_url(f"{at}/openapi.json").exclude(path="/v1/events")  # it does not end
        for found in schema.get_all_operations():
            operation: Any = cast(Any, found).ok()
            for mode in schemathesis.GenerationMode:

                @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
                          phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
                @given(case=operation.as_strategy(mode))
                def ask(case: Any) -> None:
                    nonlocal asked
                    asked += 1
                    case.call_and_validate(at, headers={"Authorization": f"Bearer {key}"}, checks=every)

                with contextlib.suppress(Unsatisfiable):  # an address without parameters has no invalid ones
                    ask()
    assert asked > 40 * EXAMPLES
