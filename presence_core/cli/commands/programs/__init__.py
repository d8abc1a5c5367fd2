"""The programs that ``presence`` starts: the HTTP service, the dashboard and the demo; and shell completion."""
