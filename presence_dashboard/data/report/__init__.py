"""What the Report page shows: the shift report, and what is open for the next shift."""
