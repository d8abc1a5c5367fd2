"""Middleware, Django, FastAPI, JWT, and the pytest plugin."""
