"""Presence by HTTP: the service, and middleware for a site of its own."""
