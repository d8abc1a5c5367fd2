"""presence.js: a page that includes it is counted while it is shown."""

from __future__ import annotations

from typing import Final

SCRIPT: Final = """\
// <script src="https://presence.example/presence.js" data-seconds="30" data-beat="/visit" async></script>
(function (me) {
  var base = me.src.replace(/\\/presence\\.js.*$/, ""), seconds = Number(me.dataset.seconds) || 30, timer = 0;
  var init = { method: "POST", credentials: "include" }, sending = false, page;
  function at(path) { return base + path + "?page=" + page; }  // so that no late beat undoes this page's goodbye
  function done() { sending = false; }  // one beat at a time: before the first response there is no cookie
  function beat() { if (!sending) { sending = true; fetch(at(me.dataset.beat || "/visit"), init).then(done, done); } }
  function wake() { clearInterval(timer); if (!document.hidden) { beat(); timer = setInterval(beat, seconds * 1000); } }
  function show() { page = Math.random().toString(36).slice(2) || "0"; sending = false; wake(); }
  document.addEventListener("visibilitychange", wake);
  addEventListener("pageshow", function (event) { if (event.persisted) show(); });
  addEventListener("pagehide", function () { clearInterval(timer); navigator.sendBeacon(at("/goodbye")); });
  show();
})(document.currentScript);
"""
