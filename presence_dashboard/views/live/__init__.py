"""The Live page: counts now and over time, by device and app, and the latest logins and ends. Start with ``live``."""
