// What Streamlit does not offer: Back finds the page as it was left, "/" focuses the search box, Enter in it opens a single match,
// a button prints, a hidden tab pauses, the refresh interval, the density and the language are remembered, a lost connection is
// named together with the age of what the page shows, a watched person is announced by a sound.
(() => {
  // Without this, Streamlit looks for its server below the address of the page first, which fails with a 404.
  window.__streamlit = { BACKEND_BASE_URL: location.origin };

  // Streamlit pushes up to three history entries when the reader opens another page. One is the page that they leave, without its
  // query. Only the first push after an input of the reader makes an entry. Others change it, so Back finds the query.
  const push = history.pushState.bind(history);
  let isNewStep = true;
  for (const input of ["pointerdown", "keydown", "click"]) addEventListener(input, () => (isNewStep = true), true);
  history.pushState = (...entry) => {
    const before = location.pathname;
    isNewStep ? push(...entry) : history.replaceState(...entry);
    isNewStep = false;
    if (location.pathname !== before) focusPerson();
  };

  // The control that opened a person is gone. The focus goes to their name, unless the reader has moved it elsewhere.
  function focusPerson() {
    once(() => document.querySelector(".st-key-person-header h2"), (name) => {
      const at = document.activeElement;
      if (at !== document.body && !at.shadowRoot) return; // a shadow root: the table, which is about to go
      name.tabIndex = -1;
      name.focus();
    });
  }

  // A menu of actions closes when one is chosen. A round trip of the server could close one that was opened just now.
  document.addEventListener("click", (event) => {
    const menu = event.target.closest?.('[data-testid="stPopoverBody"]:has([class*="st-key-timeouts-"])');
    if (!menu || !event.target.closest("button")) return;
    setTimeout(() => menu.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true })));
  });

  // A menu is drawn at the end of the page. Opened by a key, it gets the focus, and the next Tab reaches its first control.
  document.addEventListener("click", (event) => {
    const button = event.target.closest('[data-testid="stPopoverButton"]');
    if (!button || event.detail !== 0 || button.ariaExpanded === "true") return; // detail 0: by the keyboard
    once(() => document.querySelector('[data-testid="stPopoverBody"]'), (menu) => {
      menu.tabIndex = -1;
      menu.focus();
    });
  }, true);

  /** Call ``act`` with an element as soon as it is there. The next call forgets the one before. */
  let awaited;
  function once(find, act) {
    awaited?.disconnect();
    awaited = new MutationObserver(() => {
      const found = find();
      if (!found) return;
      awaited.disconnect();
      act(found);
    });
    awaited.observe(document.body, { childList: true, subtree: true });
  }

  const PAUSE_AFTER = 15_000; // ms: a short look at another tab pauses nothing

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = document.activeElement;
    if (at && (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName))) return;
    const box = document.querySelector('input[type="search"]');
    if (!box) return;
    event.preventDefault();
    box.focus();
    box.select();
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest(".st-key-print-page button")) window.print();
  });

  // A link of a table to another site, such as a ticket, opens another tab. Streamlit removes the attribute from HTML.
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".stHtml a");
    if (link && link.origin !== location.origin) [link.target, link.rel] = ["_blank", "noopener"];
  }, true);

  // Enter clicks an invisible button, once the list has followed the text.
  const AFTER_TEXT = 150; // ms: by then the box has sent its text
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || !event.target.matches('input[type="search"]')) return;
    const click = (left) => {
      const busy = !document.querySelector('.stApp[data-test-script-state="notRunning"]');
      if (busy && left > 0) setTimeout(click, 50, left - 1);
      else document.querySelector(".st-key-open-single button")?.click();
    };
    setTimeout(click, AFTER_TEXT, 60);
  });

  // Ctrl+Enter confirms a dialog, which Streamlit does in a text field. A button keeps each Enter to itself, such as the phrase
  // that was just chosen.
  addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.repeat) return;
    const dialog = event.target.closest?.('[role="dialog"]');
    const confirm = dialog?.querySelector('.st-key-dialog-foot :is([class*="st-key-danger-"], [class*="st-key-confirm-"]) button');
    if (!confirm || event.target.matches("input, textarea")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    confirm.click();
  }, true);

  // Text of a dialog reaches the server when its field is left. After a pause it is sent as well, so that a draft has
  // it when the reader is signed out.
  const SENT_AFTER = 2_000; // ms
  let sending;
  document.addEventListener("input", (event) => {
    const field = event.target;
    clearTimeout(sending);
    if (!field.closest('[role="dialog"]') || !/^(INPUT|TEXTAREA)$/.test(field.tagName)) return;
    sending = setTimeout(() => {
      if (document.activeElement !== field) return; // it was left
      field.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
      field.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
    }, SENT_AFTER);
  });

  // An invisible switch tells the server that the tab is hidden. Live parts then stop refreshing.
  let waiting;
  const watch = () => {
    clearTimeout(waiting);
    waiting = setTimeout(report, document.hidden ? PAUSE_AFTER : 0);
  };
  document.addEventListener("visibilitychange", watch);
  if (document.hidden) watch(); // opened in the background
  function report() {
    const hidden = document.querySelector(".st-key-tab-hidden input");
    if (hidden && hidden.checked !== document.hidden) hidden.click();
  }

  // The refresh interval, the density and the language are in class names of containers. Cookies keep them for a year.
  let saving;
  for (const act of ["click", "keyup"]) {
    document.addEventListener(act, () => {
      clearTimeout(saving);
      saving = setTimeout(remember, 1_500);
    }, true);
  }
  function remember() {
    for (const name of ["every", "density", "language"]) {
      const value = document.querySelector(`[class*="st-key-${name}-"]`)?.className.match(`st-key-${name}-(\\w+)`);
      if (value) keep(name, value[1]);
    }
    const signal = document.querySelector(".presence-arrivals");
    if (signal) keep("sound", signal.dataset.sound);
    if (signal) keep("notify", signal.dataset.notify);
  }
  function keep(name, value) {
    document.cookie = `presence_${name}=${value}; Path=/; Max-Age=31536000; SameSite=Lax`;
  }

  // The number of watched people who have come online is in an invisible element. If it rises, two notes play. While the tab is
  // hidden, its title and its icon count them, and the system shows a notification if the reader has asked for that.
  let arrivals, unseen = 0;
  setInterval(() => {
    const signal = document.querySelector(".presence-arrivals");
    if (!signal) return;
    const count = Number(signal.dataset.count), isNew = arrivals !== undefined && count > arrivals;
    if (isNew && signal.dataset.sound === "1") play();
    if (isNew && document.hidden) {
      unseen += count - arrivals;
      if (signal.dataset.notify === "1") notify(signal.dataset.text);
    }
    arrivals = count;
    showUnseen();
  }, 1_000);

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    unseen = 0;
    showUnseen();
  });

  // Browsers ask the reader only after a click, and so do we: never when the page opens.
  document.addEventListener("click", (event) => {
    if (event.target.closest(".st-key-watch-notify") && window.Notification?.permission === "default") Notification.requestPermission();
  });

  function notify(text) {
    if (window.Notification?.permission !== "granted") return;
    const shown = new Notification(text, { tag: "presence", icon: ownIcon });
    shown.onclick = () => {
      window.focus();
      shown.close();
    };
    document.documentElement.dataset.notified = text; // for tests
  }

  const COUNTED = /^\(\d+\) /;
  const icon = document.querySelector('link[rel="icon"]'), ownIcon = icon?.href;
  let drawn = 0;
  function showUnseen() {
    const title = (unseen ? `(${unseen}) ` : "") + document.title.replace(COUNTED, ""); // each run of the page sets the title again
    if (document.title !== title) document.title = title;
    if (!icon || drawn === unseen) return;
    drawn = unseen;
    if (!unseen) icon.href = ownIcon;
    else drawIcon(unseen);
  }

  function drawIcon(count) {
    const picture = new Image(64, 64);
    picture.onload = () => {
      const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
      canvas.width = canvas.height = 64;
      pen.drawImage(picture, 0, 0, 64, 64);
      pen.fillStyle = "#c62828";
      pen.beginPath();
      pen.arc(44, 44, 20, 0, 2 * Math.PI);
      pen.fill();
      pen.fillStyle = "white";
      pen.font = "bold 28px sans-serif";
      [pen.textAlign, pen.textBaseline] = ["center", "middle"];
      pen.fillText(count > 9 ? "9+" : count, 44, 46);
      if (drawn === count) icon.href = canvas.toDataURL();
    };
    picture.src = ownIcon;
  }

  let audio;
  function play() {
    audio ??= new AudioContext();
    audio.resume(); // browsers allow it after the first click on the page
    [660, 880].forEach((hertz, note) => {
      const tone = audio.createOscillator(), volume = audio.createGain();
      const begin = audio.currentTime + note * 0.18;
      tone.frequency.value = hertz;
      volume.gain.setValueAtTime(0.0001, begin);
      volume.gain.exponentialRampToValueAtTime(0.2, begin + 0.02);
      volume.gain.exponentialRampToValueAtTime(0.0001, begin + 0.3);
      tone.connect(volume).connect(audio.destination);
      tone.start(begin);
      tone.stop(begin + 0.3);
    });
    document.documentElement.dataset.sounds = Number(document.documentElement.dataset.sounds ?? 0) + 1; // for tests
  }

  // The header's parts are as wide as the language, the counts, the name and the fonts make them. Where they leave too little
  // room for the links to the pages, page.css shortens them step by step. What then still does not fit, Streamlit puts into a menu.
  const STEPS = ["1", "2", "3", "4", "5"];
  const PAGE_LINKS = ".rc-overflow-item:not(.rc-overflow-item-rest)";
  const HEADER_GAP = 40; // px, on both sides of the links together
  const measured = new WeakSet();
  const sizes = new ResizeObserver(fitHeader);
  new MutationObserver(() => {
    for (const part of document.querySelectorAll(`.st-key-header, .st-key-header > *, ${PAGE_LINKS}`)) {
      if (measured.has(part)) continue;
      measured.add(part);
      sizes.observe(part);
    }
  }).observe(document.documentElement, { childList: true, subtree: true });

  function fitHeader() {
    const root = document.documentElement, header = document.querySelector(".st-key-header");
    if (!header) return;
    const links = [...document.querySelectorAll(PAGE_LINKS)].reduce((sum, link) => sum + link.offsetWidth, 0);
    const isPhone = matchMedia("(max-width: 767px)").matches; // there the links are behind one button
    for (let step = isPhone ? STEPS.length : 0; step <= STEPS.length; step++) {
      root.dataset.header = STEPS.slice(0, step).join(" ");
      const [brand, state] = [...header.children].map((part) => part.getBoundingClientRect()).filter((box) => box.width > 0);
      if (!state) return; // drawn in part
      root.style.setProperty("--brand", `${brand.right}px`);
      root.style.setProperty("--state", `${innerWidth - state.left}px`);
      if (brand.right + links + HEADER_GAP <= state.left) return;
    }
  }

  // Streamlit only greys its widgets out. It does not notice a process that hangs, and a page that waits for Redis says nothing.
  // So this script asks both for a sign of life.
  const LOST_AFTER = 2_000; // ms: a connection that is back by then was not lost
  const ASK_EVERY = 1_000; // ms, as dashboard.py says
  const PATIENCE = 8_000;
  const { lost: sentence, units } = document.currentScript.dataset;
  let [fresh, broken, hangs, wasConnected] = [Date.now(), 0, false, false]; // last drawn at; cut off since

  const states = new MutationObserver(() => {
    const app = document.querySelector(".stApp");
    const isConnected = app?.dataset.testConnectionState === "CONNECTED";
    if (isConnected) [hangs, wasConnected] = [false, true];
    if (isConnected && app.dataset.testScriptState === "notRunning") fresh = Date.now();
    broken = isConnected || !wasConnected ? 0 : broken || Date.now();
    tell();
  });
  new MutationObserver(tellOutage).observe(document.documentElement, { childList: true, subtree: true });
  states.observe(document.documentElement, {
    subtree: true, attributeFilter: ["data-test-connection-state", "data-test-script-state"],
  });
  setInterval(tell, 1_000);
  const zone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone);
  let [isAsking, notice] = [false, null];
  setInterval(async () => {
    if (document.hidden || isAsking) return;
    isAsking = true;
    try {
      const answer = await fetch(`/page/connection?zone=${zone}`, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
      [hangs, notice] = [!answer.ok, answer.ok ? (await answer.json()).notice : null];
    } catch {
      [hangs, notice] = [true, null];
    }
    isAsking = false;
    tell();
    tellOutage();
  }, ASK_EVERY);

  /** The notice of an outage, in the place and with the words of the one that the page draws once it has noticed. */
  function tellOutage() {
    const shown = document.getElementById("sessions-away");
    if (!notice || document.querySelector('.st-key-outage [data-testid="stAlert"]')) {
      shown?.remove();
      return;
    }
    if (shown?.dataset.notice === notice) return;
    const box = shown ?? document.createElement("div");
    box.id = "sessions-away";
    box.dataset.notice = notice;
    box.setAttribute("role", "alert");
    box.replaceChildren(...notice.split("\n\n").map((paragraph) => {
      const line = document.createElement("p");
      paragraph.split("**").forEach((part, at) => { // every second part is bold
        const piece = document.createElement(at % 2 ? "strong" : "span");
        piece.textContent = part;
        line.append(piece);
      });
      return line;
    }));
    document.body.append(box);
  }

  function tell() {
    const isLost = hangs || (broken && Date.now() - broken > LOST_AFTER);
    let banner = document.getElementById("connection-lost");
    if (!isLost) {
      banner?.remove();
      return;
    }
    if (!banner) {
      banner = document.createElement("div");
      banner.id = "connection-lost";
      banner.setAttribute("role", "alert");
      const [before, after] = sentence.split("{1}");
      const time = new Date(fresh).toLocaleTimeString("en-GB");
      banner.append(before.replace("{0}", time), document.createElement("span"), after);
      banner.lastElementChild.setAttribute("aria-live", "off"); // the age ticks silently
      document.body.append(banner);
    }
    banner.lastElementChild.textContent = age((Date.now() - fresh) / 1_000);
  }

  function age(seconds) {
    const [s, min, h] = units.split(" ");
    if (seconds < 60) return `${Math.floor(seconds)} ${s}`;
    if (seconds < 3_600) return `${Math.floor(seconds / 60)} ${min}`;
    return `${Math.floor(seconds / 3_600)} ${h}`;
  }
})();
