"""Mirrored sessions: copies of those that a site has in a store of its own, kept in step by ``presence mirror``."""
