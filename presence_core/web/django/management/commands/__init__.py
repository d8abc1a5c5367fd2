"""A module per command."""
