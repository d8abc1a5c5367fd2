"""Notices to users about odd logins: the queue and the answers."""
