"""The Health page: servers, data, worker, retention, and repair. Start with ``health``."""
