"""The Staff page: who works with the dashboard, in which role."""
