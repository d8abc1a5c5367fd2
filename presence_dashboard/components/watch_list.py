"""The watch list on every page: its menu, and a toast and a sound when a watched person comes online."""

from __future__ import annotations

import time
from html import escape
from typing import Final
from urllib.parse import quote

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from presence_core import SavedItem
from presence_dashboard import texts
from presence_dashboard.actions import saved_items
from presence_dashboard.components import notifications
from presence_dashboard.components.buttons import live_button
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.store import open_store
from presence_dashboard.data.watch_list import alerted, arrivals, watched
from presence_dashboard.format import cut, name
from presence_dashboard.roles import Actor

MAX_TOASTS: Final = 4

REDRAW: Final = 2.0
"""Seconds in which each run draws a new toast again. A run that begins just after a toast was drawn, as by Follow, may
drop it before the browser has it. So short that few close a toast before: it would return once."""

_SOUND: Final = "watch-sound"
_NOTIFY: Final = "watch-notify"
_COUNT: Final = "watch-arrivals"
_TOASTS: Final = "watch-toasts"
_SAID: Final = "watch-said"


def watch_menu(actor: Actor) -> None:
    """The menu in the header: who is watched and online, and the choice of a sound and of notifications."""
    if not actor.may("people"):
        return
    for key, cookie in ((_SOUND, "presence_sound"), (_NOTIFY, "presence_notify")):
        if key not in st.session_state:
            st.session_state[key] = st.context.cookies.get(cookie) == "1"
    menu = st.popover(texts.WATCH_MENU, key="menu-watch", icon=":material/visibility:", on_change="rerun")
    with menu:
        st.toggle(texts.WATCH_SOUND, key=_SOUND, persist_state="session", help=texts.WATCH_SOUND_HELP)
        st.toggle(texts.WATCH_NOTIFY, key=_NOTIFY, persist_state="session", help=texts.WATCH_NOTIFY_HELP)
        if not menu.open:  # a closed menu reads nothing
            return
        reading = watched(open_store(), actor.name)
        if reading.value is None:
            st.markdown(reading.failure or "")
        elif not reading.value.people:
            st.caption(texts.WATCH_NONE)
        else:
            for item in reading.value.people:
                _row(item, item.name in reading.value.online, actor)


def _row(item: SavedItem, is_online: bool, actor: Actor) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall", horizontal_alignment="distribute"):
        with st.container(horizontal=True, vertical_alignment="center", width="content", gap="xxsmall"):
            st.page_link("views/person/person.py", label=_called(item, actor), query_params={"q": item.name})
            st.markdown(texts.WATCH_ONLINE if is_online else texts.WATCH_OFFLINE, width="content")
        live_button(
            "", f"unwatch-{item.name}", _change, item.name, item.text, False, actor,
            type="tertiary", icon=":material/close:", help=f"{texts.WATCH_STOP}: {_called(item, actor)}",
        )  # fmt: skip


def watch_button(uid: str, called: str | None, actor: Actor) -> None:
    """The button of a person that begins or ends watching them."""
    reading = watched(open_store(), actor.name)
    is_watched = reading.value is not None and any(item.name == uid for item in reading.value.people)
    label = texts.WATCH_STOP if is_watched else texts.WATCH
    icon = ":material/visibility_off:" if is_watched else ":material/visibility:"
    args = (uid, called or "", not is_watched, actor)
    live_button(label, "watch", _change, *args, icon=icon, help=texts.WATCH_HELP)


def alert_button(uid: str, called: str | None, actor: Actor) -> None:
    """The button that puts a person on the shared watch list, whose logins a worker sends as alerts, or off it."""
    if not actor.may("share"):
        return
    is_on = any(item.name == uid for item in alerted(open_store()).value or ())
    label = texts.ALERT_TEAM_STOP if is_on else texts.ALERT_TEAM
    icon = ":material/notifications_off:" if is_on else ":material/notifications:"
    live_button(label, "alert-team", _change_alert, uid, called or "", not is_on, icon=icon, help=texts.ALERT_TEAM_HELP)


def announce(actor: Actor) -> None:
    """Say which watched people have come online since the last tick. Call it in a fragment, on every page."""
    if not actor.may("people") or this_tab().away:
        return
    reading = watched(open_store(), actor.name)
    this_tab().watches = reading.value is not None and bool(reading.value.people)
    found = arrivals(reading)
    words = [
        texts.watch_arrived(_called(item, actor), f"/person?q={quote(item.name, safe='')}")
        for item in found[:MAX_TOASTS]
    ]
    if len(found) > MAX_TOASTS:
        words.append(texts.watch_more(len(found) - MAX_TOASTS))
    count = st.session_state[_COUNT] = st.session_state.get(_COUNT, 0) + len(found)
    signal = st.container(key="watch-signal")
    with signal:  # invisible, for page.js, which plays the sound
        sound, notify = (int(bool(st.session_state.get(key))) for key in (_SOUND, _NOTIFY))
        if found:
            st.session_state[_SAID] = texts.watch_said(
                ", ".join(_plain_name(item, actor) for item in found[:MAX_TOASTS])
            )
        said = escape(st.session_state.get(_SAID, ""), quote=True)
        data = f'data-count="{count}" data-sound="{sound}" data-notify="{notify}" data-text="{said}"'
        st.html(f'<i class="presence-arrivals" {data}></i>')
    _draw_toasts(signal, words)


def _draw_toasts(signal: DeltaGenerator, words: list[str]) -> None:
    """Draw these toasts, and those of the last seconds again, so that each keeps its place.

    The browser shows one toast per place. ``st.toast`` would share the places of all other toasts of the page.
    """
    latest, toasts = st.session_state.get(_TOASTS, (0.0, ()))
    now = time.monotonic()
    if now - latest > REDRAW:
        toasts = ()
    if words:
        latest, toasts = now, (*toasts, *words)
    st.session_state[_TOASTS] = latest, toasts
    for text in toasts:
        signal.toast(text, icon=":material/visibility:", duration="infinite")


def _called(item: SavedItem, actor: Actor) -> str:
    return name(_plain_name(item, actor))


def _plain_name(item: SavedItem, actor: Actor) -> str:
    return cut(item.name if "name" in actor.masked or not item.text else item.text, 40)


def _change(uid: str, called: str, watch: bool, actor: Actor) -> None:
    if watch:
        notifications.attempt(lambda: saved_items.save(open_store().presence, "watch", uid, called))
    else:
        notifications.attempt(lambda: saved_items.remove(open_store().presence, "watch", uid))
    watched(open_store(), actor.name, fresh=True)


def _change_alert(uid: str, called: str, alert: bool) -> None:
    if alert:
        notifications.attempt(lambda: saved_items.save(open_store().presence, "watch", uid, called, shared=True))
    else:
        notifications.attempt(lambda: saved_items.remove(open_store().presence, "watch", uid, shared=True))
    alerted(open_store(), fresh=True)
