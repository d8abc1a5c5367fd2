"""Frames that no page of theirs sends: a kick by who may not kick. It comes to nothing, and is written down."""

from __future__ import annotations

import re
from typing import Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.types import Message
from streamlit.proto.BackMsg_pb2 import BackMsg

_OF_KICKS: Final = re.compile(r"\$\$ID-[0-9a-f]+-(?:click-|kick-|select-all$|bulk-|FormSubmitter:(?:kick|bulk)-)")
"""What begins and confirms a kick, in the ids that Streamlit makes of our keys."""


def is_kick(message: Message) -> bool:
    """Whether a button of a kick was pressed, as far as this frame says."""
    asked = BackMsg()
    try:
        asked.ParseFromString(message.get("bytes") or b"")
    except DecodeError:
        return False
    pressed = ("trigger_value", "string_trigger_value")
    widgets = asked.rerun_script.widget_states.widgets
    return any(one.WhichOneof("value") in pressed and _OF_KICKS.match(one.id) for one in widgets)
