"""The Blocks page: which networks and app versions may not log in, and which people."""
