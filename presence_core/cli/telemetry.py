"""PRESENCE_OTEL: whether the services make spans and measurements by OpenTelemetry."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from presence_core.client import Presence
from presence_core.errors import InvalidArgument

VARIABLE: Final = "PRESENCE_OTEL"

log = logging.getLogger(__name__)


def wants_telemetry(environ: Mapping[str, str]) -> bool:
    """Whether it is on. Raises InvalidArgument, also if OpenTelemetry is not installed."""
    value = environ.get(VARIABLE, "").strip() or "off"
    if value not in ("on", "off"):
        raise InvalidArgument(VARIABLE, "must be on or off")
    if value == "off":
        return False
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        raise InvalidArgument(
            VARIABLE, "needs the extra otel (in a checkout: pip install '.[otel]')", "not_installed"
        ) from None
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        log.warning("%s is on, but this process has no SDK: start it with opentelemetry-instrument", VARIABLE)
    return True


def start_telemetry(presence: Presence, environ: Mapping[str, str]) -> bool:
    """Add telemetry to this client, if it is on. Returns whether it is."""
    if not wants_telemetry(environ):
        return False
    from presence_core.otel import add_telemetry

    add_telemetry(presence)
    return True
