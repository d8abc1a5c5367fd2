"""The only package that imports redis: it sends the calls of an operation and returns their replies.

Start reading in ``exchange.py``: a generator that decides what is sent where and what is sent again. ``sync_transport``
and ``async_transport`` carry out its steps; ``routing`` knows the nodes, ``errors`` what failures mean, ``connections``
and ``pools`` how to connect. ``sentinel_watch`` follows the master behind Sentinel, ``cluster_check`` on a cluster.
"""

from presence_core.transport.async_transport import AsyncTransport
from presence_core.transport.connections import closers, connect, connect_without_pool, server_name
from presence_core.transport.sync_transport import SyncTransport
from presence_core.transport.tls import with_files

__all__ = ["AsyncTransport", "SyncTransport", "closers", "connect", "connect_without_pool", "server_name", "with_files"]
