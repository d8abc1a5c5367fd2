"""What Health says about notices to users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from presence_core.models import Finding, NoticeReport

SILENT: Final = 300
"""Seconds. A sender notes every ten seconds that it runs."""

SHOWN: Final = 7 * 86_400
"""How long a mail that may be missing is reported, seconds."""


def of_notices(report: NoticeReport | None) -> Iterator[Finding]:
    """Nothing for a site that has never run a sender."""
    if report is None or report.turn_at is None:
        return
    waiting = f"{report.waiting:,} user{' has' if report.waiting == 1 else 's have'} a notice in the queue"
    is_silent = (report.as_of - report.turn_at).total_seconds() > SILENT
    if is_silent:
        text = f"No process has sent notices since {report.turn_at:%Y-%m-%d %H:%M} UTC; {waiting}."
        yield Finding("warning", "notices", text, "Start the NoticeSender of your site, or presence notices.")
    elif report.failing_since is not None:
        text = f"No notice can be sent since {report.failing_since:%Y-%m-%d %H:%M} UTC: {report.failure}; {waiting}."
        yield Finding("warning", "notices", text, "Check the mail server, its address, and that it takes your mails.")
    if report.unsure_at is not None and (report.as_of - report.unsure_at).total_seconds() < SHOWN:
        text = (
            f"Mails may be missing, the last one found at {report.unsure_at:%Y-%m-%d %H:%M} UTC; "
            f"{report.counts['unsure']:,} in all: their sender stopped while it sent."
        )
        yield Finding("warning", "notices", text, "They are not sent again. Look in the log of the mail server.")
    elif not is_silent and report.failing_since is None:
        yield Finding("ok", "notices", f"{report.counts['sent']:,} sent; {waiting}.")
