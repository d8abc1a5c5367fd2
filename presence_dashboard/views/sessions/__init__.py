"""The Sessions page: search, the table of live sessions, kick, bulk kick and export. Start with ``sessions``."""
