"""A receiver of webhooks, for tests."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from presence_core.web.webhooks.signing import DELIVERY_ID, SIGNATURE, verify
from tests.support.fair_clock import PATIENT

SECRET = "a secret that only two know"


def until(check: Callable[[], Any], seconds: float = PATIENT) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


class Receiver:
    """A real HTTP server that answers with the given statuses, and then with 200."""

    def __init__(self) -> None:
        self.tries: list[tuple[str, dict[str, Any]]] = []
        self.taken: list[dict[str, Any]] = []
        self.answers: list[int] = []
        self.forged = 0
        self.asked = 0  #: requests that have begun
        self.most_at_once = 0
        self.refuse: Callable[[dict[str, Any]], object] = lambda event: False  #: answers 500; may also wait
        self._under_way = 0
        self._lock = threading.Lock()
        self.ready = threading.Event()  #: while it is not set, no request is answered
        self.ready.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.asked += 1
                receiver.ready.wait()
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not verify(SECRET, self.headers[SIGNATURE], body):
                    receiver.forged += 1
                event = json.loads(body)
                assert self.headers[DELIVERY_ID] == event["id"]
                receiver.tries.append((self.path, event))
                status = receiver.answers.pop(0) if receiver.answers else 200
                with receiver.counted():
                    if receiver.refuse(event):
                        status = 500
                if 200 <= status < 300:
                    receiver.taken.append(event)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:  # a receiver that was reached by a redirect
                receiver.tries.append((self.path, {"id": self.path}))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?key=receivers-own"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """A request that is under way."""
        with self._lock:
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def received(self) -> list[tuple[str, str | None]]:
        return [(event["type"], event.get("uid")) for event in self.taken]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
