"""A private Redis or Valkey server for laptops, demos and tests: nothing to install, data kept between runs.

Start reading in ``server.py``: it finds the server of a data directory or starts it. ``keeper.py`` is a process of its
own that stops the server after its last user.
"""

from presence_core.embedded.server import EmbeddedServer, find_server_binary, user_state_dir

__all__ = ["EmbeddedServer", "find_server_binary", "user_state_dir"]
