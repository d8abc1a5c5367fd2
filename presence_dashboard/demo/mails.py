"""The mails of the demo site: it has no mail server, so it writes them to files, and shows them on a page."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from presence_core import Presence
from presence_core.web.notices.link import NoticeLink
from presence_core.web.notices.mail import NoticeMail
from presence_core.web.notices.sender import NoticeSender
from presence_dashboard.demo.people import BY_UID

SENDER: Final = "Paperboat <no-reply@paperboat.example>"
MOST: Final = 50


class Mailbox:
    """The latest mails. ``folder``: where they are written, too; None: nowhere."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._mails: deque[NoticeMail] = deque(maxlen=MOST)
        self._lock = threading.Lock()

    def send(self, mail: NoticeMail) -> None:
        """Take a mail, as a mail server would."""
        with self._lock:
            self._mails.append(mail)
        if self.folder is not None:
            with suppress(OSError):  # a full disk: the page still shows it
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                (self.folder / f"{mail.notice.id}.eml").write_bytes(mail.message(SENDER).as_bytes())
                for old in sorted(self.folder.glob("*.eml"), key=lambda path: path.stat().st_mtime)[:-MOST]:
                    old.unlink()

    def of(self, uid: str) -> list[NoticeMail]:
        """The mails to a user, the newest first."""
        with self._lock:
            return [mail for mail in reversed(self._mails) if mail.notice.uid == uid]


def address_of(uid: str) -> tuple[str, str] | None:
    """The address of a user of the demo, as the site's own list of users has it."""
    member = BY_UID.get(uid)
    found = [alias for alias in member.aliases if "@" in alias] if member else []
    return (found[0], "en") if found else None


def sender(presence: Presence, mailbox: Mailbox, site: str, key: bytes) -> NoticeSender:
    """Writes to users of the demo about odd logins. site: its URL."""
    link = NoticeLink(url=f"{site}/devices/notice", key=key)
    return NoticeSender(presence, link=link, address_of=address_of, send=mailbox.send, site="Paperboat")


def folder_of(environ: Mapping[str, str]) -> Path | None:
    """Where mails are written: next to the data of the demo."""
    named = environ.get("PRESENCE_DATA_DIR", "").strip()
    return Path(named) / "mails" if named else None
