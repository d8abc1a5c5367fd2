"""The programs that ``presence`` starts: the HTTP service, the dashboard and the demo, notices to users; and
shell completion."""
