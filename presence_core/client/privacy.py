"""Export what is stored about a person, and erase it."""

from __future__ import annotations

from typing import Any

from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.models import EraseReport
from presence_core.operations import known_devices
from presence_core.operations.privacy import erase, export


class PrivacyMethods(Client):
    def erase(self, uid: str, *, by: str, reason: str) -> EraseReport:
        """Erase a person: delete every trace from every key. What staff did to them stays, under a pseudonym.

        Live sessions end first, as kicked, and the user is unblocked. by: 1-256 bytes. reason: for staff, 1-500
        characters. After an error call it again: it continues with what is left. docs/run/privacy.md lists what it
        cannot reach. Refused with Unavailable during a reshard. Cost: O(N) in many small steps: it reads the lists of
        the person's shard and all audits.
        """
        return self._run(erase.erase(self._ctx, uid, by, reason))

    def rotate_device_key(self, *, by: str, reason: str) -> None:
        """Make a new secret for the digests of devices. Digests made with the previous secret stay valid,
        older ones do not. So wait ``keep_devices`` before the next rotation. Logins use it after a minute, when every
        client has it; within that minute another rotation changes nothing. Cost: four round trips.
        """
        return self._run(known_devices.rotate_device_key(self._ctx, by, reason))

    def export_person(self, uid: str) -> dict[str, Any]:
        """What is stored about a person, ready for JSON: person, sessions, ended, sign_ins (with ``keep_sign_ins``),
        failed_logins, devices, last_place, block, audit, events, remarks, notices, requests (approval requests that
        name them) and saved (what they saved as staff, and which staff watch them).

        At most 10,000 entries of each kind, and the latest 100 ended sessions; ``cut`` names the kinds that have more.
        Ended sessions have the name of their time. Texts of staff are in it. It writes no audit entry.
        Cost: O(audit + events kept), in steps of a thousand.
        """
        return self._run(export.export_person(self._ctx, uid))


class AsyncPrivacyMethods(AsyncClient):
    erase = awaited(PrivacyMethods.erase)
    rotate_device_key = awaited(PrivacyMethods.rotate_device_key)
    export_person = awaited(PrivacyMethods.export_person)
