"""The Handbook page."""
