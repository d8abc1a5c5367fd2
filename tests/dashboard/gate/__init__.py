"""The gate: sign-in of staff, and what a request needs before it gets a page."""
