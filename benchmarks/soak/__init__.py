"""A site under load for some minutes, and a check of every promise."""
