"""The dashboard: pages over presence_core's public names. ``dashboard.py`` beside this package serves it."""
