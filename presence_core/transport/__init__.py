"""The only room that imports redis: it carries an operation's calls to the servers and their replies back.

Sync and async share one flow (``exchange``): a generator decides, two small drivers (``runners``) do what it asks.
"""

from presence_core.transport.links import closers, connect
from presence_core.transport.runners import AsyncTransport, SyncTransport
from presence_core.transport.tls import with_files

__all__ = ["AsyncTransport", "SyncTransport", "closers", "connect", "with_files"]
