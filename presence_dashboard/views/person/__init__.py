"""The Person page: one person's sessions, block, timeline and privacy menu. Start with ``person``."""
