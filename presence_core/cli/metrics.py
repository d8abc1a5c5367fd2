"""``presence worker --metrics``: metrics for Prometheus, without the HTTP service."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.worker import Worker

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

RULE = "must be HOST:PORT, such as 127.0.0.1:9109 or [::1]:9109"

log = logging.getLogger(__name__)

Export = Callable[[Presence, Worker], None]


@contextlib.contextmanager
def metrics_server(address: str | None) -> Iterator[Export]:
    """Listen on this address. The result exports the metrics of a worker there; without an address it does nothing.

    Raises InvalidArgument.
    """
    if address is None:
        yield lambda presence, worker: None
        return
    host, port = _host_and_port(address)
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ModuleNotFoundError:
        raise InvalidArgument("--metrics", "needs prometheus_client: install the extra web", "not_installed") from None
    registry = CollectorRegistry()
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgument("--metrics", f"cannot listen on {address}: {reason}") from None
    try:
        url = f"http://{address.rpartition(':')[0]}:{server.server_port}/metrics"
        log.info("metrics are at %s", url)
        yield lambda presence, worker: _export(presence, worker, registry)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _export(presence: Presence, worker: Worker, registry: CollectorRegistry) -> None:
    from presence_core.prometheus import export_metrics

    export_metrics(presence=presence, worker=worker, registry=registry)


def _host_and_port(address: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\s\[\]]+)):([0-9]{1,5})", address)
    if found is None or int(found[3]) > 65_535:
        raise InvalidArgument("--metrics", RULE)
    return found[1] or found[2], int(found[3])
