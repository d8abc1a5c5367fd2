"""The Sessions page, its saved views and its watch list."""
