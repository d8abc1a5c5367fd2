"""Export and erase the data of one person."""

from __future__ import annotations

import json

from presence_core import AuditFact, EraseReport, Presence
from presence_dashboard import access


def erase_person(presence: Presence, uid: str, reason: str) -> EraseReport:
    """Erase all data of a person, for good. Raises as ``Presence.erase``."""
    actor = access.require_fresh("staff", action="forget", uid=uid)
    return presence.erase(uid, by=actor.name, reason=reason)


def export_person(presence: Presence, uid: str) -> str:
    """All stored data of a person, as JSON. The export is audited before the file is returned."""
    actor = access.require_fresh("staff", action="export_person", uid=uid)
    found = presence.export_person(uid)
    presence.audit_note(by=actor.name, what="export_person", uid=uid, facts=[AuditFact("person_exported")])
    return json.dumps(found, ensure_ascii=False, indent=2)
