"""What a reader of a format raises."""


class Unreadable(Exception):
    """A value that is not what the store writes, or that only its program could read."""
