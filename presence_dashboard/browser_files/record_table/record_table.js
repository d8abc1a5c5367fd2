// A table of records: rows that tell the truth while they stay where they are. components/record_table.py feeds it.
//
// Values are only ever set as text, so no name can become markup. A row is known by its ref, never by its position.

const STALE_TICKS = 3; // data older than so many refreshes is not called recent any more
const PADDING = 8; // px, of a cell, as in the style sheet
const NARROWEST = 70; // px: no text column is made narrower
const GAP = 6; // px before a badge, and
const SHORTEST = 36; // px of the text in front of badges, as in the style sheet
const DETAILS = 30; // tenths of a second that the details of a row may take to come
const PENDING = 5_000; // ms that ticks of this browser count before the server has heard of them

const tables = new WeakMap();

export default function ({ parentElement, data, setStateValue, setTriggerValue }) {
  let table = tables.get(parentElement);
  if (!table) tables.set(parentElement, (table = new RecordTable(parentElement.querySelector(".record-table"))));
  table.update(data, setStateValue, setTriggerValue);
  return () => table.stop();
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Set a text only if it is another one, so that nothing is drawn again for nothing. */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show a note and badges behind the text of a cell, in one line with it; none if the row has none for it. */
function mark(cell, shown, marks) {
  const wanted = marks ? JSON.stringify(marks) : "";
  if ((cell.dataset.marks ?? "") === wanted) return;
  cell.dataset.marks = wanted;
  cell.replaceChildren(shown);
  if (!marks) return;
  const line = element("div", { class: "marked" }, shown);
  if (marks.note) line.append(element("small", { dir: "auto", title: marks.note }, marks.note));
  for (const [word, title] of marks.badges) line.append(element("mark", { title }, word));
  cell.append(line);
}

function label(node, text) {
  if (node.getAttribute("aria-label") !== text) node.setAttribute("aria-label", text);
}

function isText(column) {
  return column.kind === "text" || column.kind === "name" || column.kind === "link";
}

function fill(sentence, ...values) {
  return sentence.replace(/\{(\d)\}/g, (_, place) => values[place]);
}

class RecordTable {
  constructor(root) {
    this.root = root;
    this.ticks = new Set();
    this.sequence = 0;
    this.tickedAt = 0;
    this.sort = null; // {name, descending}, or null for the order of the server
    this.lines = new Map(); // ref → row of the table
    this.current = null; // ref of the row that Tab reaches

    this.help = element("p", { class: "unseen", id: "keys" });
    this.caption = element("caption", { class: "unseen" });
    this.head = element("tr", { role: "row" });
    this.body = element("tbody", { role: "rowgroup" });
    this.note = element("span");
    this.unsort = element("button", { type: "button", class: "plain" });
    this.footer = element("p", { class: "note" }, this.note, " ", this.unsort);
    this.status = element("p", { class: "unseen", role: "status" });
    const table = element("table", { role: "table", "aria-describedby": "keys" },
      this.caption, element("thead", { role: "rowgroup" }, this.head), this.body);
    this.place = element("div", { class: "scroll" }, table);
    this.root.replaceChildren(this.help, this.place, this.footer, this.status);
    this.resizes = new ResizeObserver(() => this.fit());

    this.unsort.addEventListener("click", () => this.sortBy(null));
    this.head.addEventListener("keydown", (event) => this.pressedInHead(event));
    this.head.addEventListener("focusin", (event) => this.reachHead(event.target));
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    this.body.addEventListener("focusin", (event) => this.reach(event.target.closest("tr").dataset.ref));
    this.body.addEventListener("pointerdown", (event) => (this.pointed = event.target.closest("tr")?.dataset.ref));
    this.body.addEventListener("click", (event) => this.meant(event), true);
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("change", (event) => {
      this.tick([event.target.closest("tr").dataset.ref], event.target.checked);
    });
  }

  update(data, setStateValue, setTriggerValue) {
    const before = this.data;
    Object.assign(this, { data, setStateValue, setTriggerValue, words: data.words });
    this.received = Date.now();
    this.clock = data.now - this.received; // what the clock of this computer is behind
    if (!before || before.zone !== data.zone) this.setZone(data.zone);
    if (data.sequence >= this.sequence || Date.now() - this.tickedAt > PENDING || before?.list !== data.list) {
      this.ticks = new Set(data.rows.filter((row) => row.ticked).map((row) => row.ref));
      this.sequence = Math.max(this.sequence, data.sequence);
    }
    write(this.help, this.words.keys);
    this.root.classList.toggle("can-pick", data.canPick);
    write(this.caption, data.caption);
    write(this.unsort, this.words.unsort);
    this.drawHead();
    this.drawRows();
    this.announce(before);
    this.timer ??= setInterval(() => document.hidden || this.passTime(), 1_000);
    this.resizes.observe(this.place);
  }

  passTime() {
    this.drawTimes();
    if (this.overhang() > this.accepted) this.fit(); // other words for times, or a font that has come
  }

  stop() {
    clearInterval(this.timer);
    this.resizes.disconnect();
    this.timer = undefined;
  }

  // -- Head ------------------------------------------------------------------------------------------------------------

  drawHead() {
    const shape = JSON.stringify([this.data.columns, this.data.canTick, this.data.canKick, this.words.kick]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.lines.clear();
      this.free = [];
      this.body.replaceChildren();
      this.head.replaceChildren(...this.leadingHeads(), ...this.data.columns.map((column) => this.columnHead(column)));
    }
    this.markSort();
    this.markHeadBox();
    if (!this.head.querySelector('button[tabindex="0"]')) this.reachHead(this.head.querySelector("button"));
  }

  leadingHeads() {
    const heads = this.data.canTick ? [this.boxHead()] : [];
    if (this.data.canKick) {
      heads.push(element("th", { role: "columnheader", scope: "col", class: "kick" },
        element("span", { class: "unseen" }, this.words.kick)));
    }
    return heads;
  }

  boxHead() {
    this.box = element("input", { type: "checkbox", id: "all" });
    this.box.addEventListener("change", () => this.tick(this.liveRefs(), this.box.checked));
    this.boxText = element("span", { class: "in-cards" });
    return element("th", { role: "columnheader", scope: "col", class: "tick" }, element("label", {}, this.box, this.boxText));
  }

  columnHead(column) {
    const button = element("button", { type: "button", tabindex: "-1" }, column.label,
      element("span", { class: "arrow", "aria-hidden": "true" }));
    button.addEventListener("click", () => this.sortBy(column));
    return element("th", {
      role: "columnheader", scope: "col", "data-column": column.name, "aria-label": column.label,
    }, button);
  }

  /** A column of which the server has an order sorts the whole list; the others, and the one in whose order the list is,
   * sort the rows that are shown. */
  sortBy(column) {
    if (column?.sortsAll && this.data.order?.name !== column.name) {
      this.sort = null;
      this.setTriggerValue("order", column.name);
      return;
    }
    const first = column && !isText(column); // times: the latest first
    if (!column) this.sort = null;
    else if (this.sort?.name !== column.name) this.sort = { name: column.name, descending: first };
    else this.sort = this.sort.descending === first ? { name: column.name, descending: !first } : null;
    this.markSort();
    this.drawRows();
    this.say(this.footer.hidden ? this.words.unsort : this.note.textContent);
  }

  markSort() {
    const order = this.sort ?? this.data.order;
    const count = this.data.rows.length;
    for (const head of this.head.querySelectorAll("[data-column]")) {
      const { label, name, help, sortsAll } = this.data.columns.find((column) => column.name === head.dataset.column);
      const is = order?.name === name;
      if (is) head.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      write(head.querySelector(".arrow"), is ? (order.descending ? "▼" : "▲") : "");
      const sorts = fill(sortsAll && this.data.order?.name !== name ? this.words.sortAll : this.words.sort, label, count);
      head.firstChild.setAttribute("aria-label", sorts);
      head.firstChild.title = help ? `${help} ${sorts}` : sorts;
    }
    const column = this.sort && this.data.columns.find((one) => one.name === this.sort.name);
    if (!column) this.sort = null;
    this.footer.hidden = !column;
    write(this.note, column ? fill(this.words.sorted, column.label, count) : "");
  }

  // -- Rows ------------------------------------------------------------------------------------------------------------

  drawRows() {
    const active = this.root.getRootNode().activeElement;
    const focused = active?.closest?.("tbody tr");
    const place = focused ? [...this.body.rows].indexOf(focused) : -1;
    this.release(focused);
    const lines = this.sorted().map((row) => this.drawRow(row));
    if (lines.some((line, at) => this.body.rows[at] !== line) || lines.length !== this.body.rows.length) {
      this.body.replaceChildren(...lines);
    }
    if (!this.lines.has(this.current)) this.current = lines[Math.max(0, Math.min(place, lines.length - 1))]?.dataset.ref;
    this.reach(this.current);
    if (focused) (active.isConnected && refocusable(active) ? active : this.lines.get(this.current))?.focus();
    this.drawTimes();
    this.fit();
  }

  /** Text columns are as wide as their texts. Where the table is wider than its place, the widest of them give way. */
  fit() {
    const texts = this.data.rows.map((row) => [row.cells.filter((cell) => typeof cell === "string"), row.marks]);
    const shape = JSON.stringify([this.place.clientWidth, this.shape, texts]);
    if (shape === this.fitted && this.overhang() <= this.accepted) return;
    this.fitted = shape;
    const table = this.place.firstChild;
    table.style.removeProperty("--widest");
    let excess = this.accepted = this.overhang();
    if (excess <= 0) return;
    const columns = this.data.columns
      .filter(isText)
      .map((column) => this.head.querySelector(`[data-column="${CSS.escape(column.name)}"]`))
      .map((head) => ({
        least: Math.max(head.firstChild.offsetWidth, this.badges(head.dataset.column)),
        text: head.clientWidth - 2 * PADDING,
      }));
    let widest = Math.ceil(Math.max(0, ...columns.map((column) => column.text)));
    for (; excess > 0 && widest > NARROWEST; widest--) {
      excess -= columns.filter(({ least, text }) => text >= widest && least < widest).length;
    }
    table.style.setProperty("--widest", `${widest}px`);
    this.accepted = this.overhang();
  }

  /** The widest badges of a column, with the start of the text before them, px. They do not give way. */
  badges(column) {
    const lines = this.body.querySelectorAll(`[data-column="${CSS.escape(column)}"] > .marked:has(mark)`);
    const width = (mark) => mark.offsetWidth + GAP;
    return Math.max(0, ...[...lines].map((line) => [...line.querySelectorAll("mark")].map(width).reduce((a, b) => a + b, SHORTEST)));
  }

  /** Pixels by which the table is wider than its place. */
  overhang() {
    return this.place.scrollWidth - this.place.clientWidth;
  }

  /** Lines of rows that are gone are free for other rows: a new text is drawn sooner than a new line. Not the one with the
   * focus, so that a key meant for its row reaches no other. */
  release(focused) {
    const refs = new Set(this.data.rows.map((row) => row.ref));
    this.free = [];
    for (const line of this.body.rows) {
      if (refs.has(line.dataset.ref)) continue;
      this.lines.delete(line.dataset.ref);
      if (line === focused) continue;
      if (line.tabIndex === 0) setTabIndex(line, -1);
      this.free.push(line);
    }
  }

  sorted() {
    if (!this.sort) return this.data.rows;
    const at = this.data.columns.findIndex((column) => column.name === this.sort.name);
    const turn = this.sort.descending ? -1 : 1;
    return [...this.data.rows].sort((one, other) => {
      const [a, b] = [one.cells[at], other.cells[at]];
      if (a === b) return 0;
      if (a === "" || a === null) return 1;
      if (b === "" || b === null) return -1;
      return turn * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true, sensitivity: "base" }));
    });
  }

  drawRow(row) {
    let line = this.lines.get(row.ref);
    if (!line) this.lines.set(row.ref, (line = this.free.shift() ?? this.newLine()));
    line.row = row;
    line.dataset.ref = row.ref;
    line.classList.toggle("ended", row.ended !== "");
    if (row.ref === this.data.picked) line.setAttribute("aria-current", "true");
    else line.removeAttribute("aria-current");
    if (line.box) {
      const isTicked = this.ticks.has(row.ref) && !row.ended;
      line.classList.toggle("ticked", isTicked);
      line.box.checked = isTicked;
      line.box.disabled = row.ended !== "";
      label(line.box, fill(this.words.tick, row.label));
    }
    if (line.kick) {
      line.kick.hidden = row.ended !== "";
      line.kick.disabled = !this.data.canAct;
      label(line.kick, fill(this.words.kickOf, row.label));
    }
    this.data.columns.forEach((column, at) => {
      const value = row.cells[at];
      const { cell, shown } = line.fields[at];
      cell.classList.toggle("empty", (value === "" || value === null) && !row.marks[column.name]);
      if (isText(column)) {
        write(shown, value);
        if (column.kind === "link") link(shown, row.links[column.name]);
        if (shown.title !== value) shown.title = value;
        mark(cell, shown, row.marks[column.name]);
      } else if (shown.dataset.at !== String(value)) {
        shown.dataset.at = String(value);
        shown.dateTime = value === null ? "" : new Date(value).toISOString();
        shown.title = value === null ? "" : this.exact(value);
      }
    });
    return line;
  }

  newLine() {
    const line = element("tr", { role: "row", tabindex: "-1" });
    if (this.data.canTick) {
      line.box = element("input", { type: "checkbox", tabindex: "-1" });
      line.append(element("td", { role: "cell", class: "tick" }, element("label", {}, line.box)));
    }
    if (this.data.canKick) {
      line.kick = element("button", { type: "button", class: "act", tabindex: "-1" }, this.words.kick);
      line.append(element("td", { role: "cell", class: "kick" }, line.kick));
    }
    line.fields = this.data.columns.map((column) => {
      const isName = column.kind === "name";
      const tag = isText(column) ? (column.kind === "link" ? "a" : "span") : "time";
      const shown = isName
        ? element("button", { type: "button", class: "open", tabindex: "-1", dir: "auto" })
        : element(tag, { dir: tag === "time" ? null : "auto", tabindex: tag === "a" ? "-1" : null });
      const cell = element(isName ? "th" : "td", {
        role: isName ? "rowheader" : "cell", scope: isName ? "row" : null,
        class: column.kind, "data-label": column.label, "data-column": column.name,
      }, shown);
      line.append(cell);
      return { cell, shown };
    });
    return line;
  }

  // -- Times -----------------------------------------------------------------------------------------------------------

  setZone(zone) {
    const make = (options) => {
      try {
        return new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...options });
      } catch {
        return new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...options, timeZone: "UTC" });
      }
    };
    const [day, clock] = [{ day: "numeric", month: "short" }, { hour: "2-digit", minute: "2-digit" }];
    this.clockOf = make({ ...clock, second: "2-digit", timeZone: zone });
    this.dayAndClock = make({ ...day, ...clock, timeZone: zone });
    this.full = make({ ...day, year: "numeric", ...clock, second: "2-digit", timeZone: zone });
    this.dayOf = make({ ...day, year: "numeric", timeZone: zone });
    this.offsetOf = make({ timeZoneName: "longOffset", timeZone: zone });
  }

  exact(at) {
    const utc = new Date(at).toISOString().slice(0, 19).replace("T", " ");
    return `${this.full.format(at)}${this.offset(at)} (${this.data.zone}) · ${utc} UTC`;
  }

  drawTimes() {
    const now = Date.now() + this.clock;
    const age = (Date.now() - this.received) / 1_000;
    const isRecent = this.data.every > 0 && age < this.data.every * STALE_TICKS + 5;
    const today = this.dayOf.format(now);
    this.data.columns.forEach((column, at) => {
      if (isText(column)) return;
      for (const { fields, row } of this.lines.values()) {
        write(fields[at].shown, this.time(row.cells[at], column.kind, now, isRecent && !row.ended, today));
      }
    });
  }

  /** An age is only true while the rows are read again and again. Without that, the time of day stays true. */
  time(at, kind, now, isRecent, today) {
    if (at === null) return "";
    if (kind === "time" || !isRecent) {
      return `${(this.dayOf.format(at) === today ? this.clockOf : this.dayAndClock).format(at)}${this.offset(at)}`;
    }
    if (kind === "ago") return fill(this.words.ago, this.span(now - at));
    return at > now ? fill(this.words.ahead, this.span(at - now)) : this.words.due;
  }

  /** " +02:00" in the hour that a clock shows twice at the end of summer time, else "". */
  offset(at) {
    const shown = this.full.format(at);
    if (![-60, -30, 30, 60].some((minutes) => this.full.format(at + minutes * 60_000) === shown)) return "";
    const name = this.offsetOf.formatToParts(at).find((part) => part.type === "timeZoneName").value;
    return ` ${name.slice(3) || "+00:00"}`;
  }

  span(length) {
    const seconds = Math.max(0, Math.floor(length / 1_000));
    const [s, min, h, d] = this.words.units.split(" ");
    if (seconds < 60) return `${seconds} ${s}`;
    if (seconds < 3_600) return `${Math.floor(seconds / 60)} ${min}`;
    if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} ${h}`;
    return `${Math.floor(seconds / 86_400)} ${d}`;
  }

  // -- Ticks and actions -----------------------------------------------------------------------------------------------

  liveRefs() {
    return this.data.rows.filter((row) => !row.ended).map((row) => row.ref);
  }

  tick(refs, on) {
    for (const ref of refs) on ? this.ticks.add(ref) : this.ticks.delete(ref);
    this.sequence += 1;
    this.tickedAt = Date.now();
    for (const ref of refs) this.drawRow(this.lines.get(ref).row);
    this.markHeadBox();
    this.setStateValue("ticks", { list: this.data.list, sequence: this.sequence, refs: [...this.ticks] });
  }

  markHeadBox() {
    if (!this.data.canTick) return;
    const live = this.liveRefs();
    const count = live.filter((ref) => this.ticks.has(ref)).length;
    this.box.checked = live.length > 0 && count === live.length;
    this.box.indeterminate = count > 0 && count < live.length;
    this.box.disabled = live.length === 0;
    const label = fill(this.words.tickAll, live.length);
    write(this.boxText, label);
    this.box.setAttribute("aria-label", label);
    this.box.title = label;
  }

  /** A click that began on another row, in the same place, was not meant for this one. */
  meant(event) {
    if (event.detail === 0 || this.pointed === event.target.closest("tr")?.dataset.ref) return; // 0: by the keyboard
    event.preventDefault();
    event.stopPropagation();
  }

  clicked(event) {
    const line = event.target.closest("tr");
    if (event.target.closest(".act")) this.act("kick", line.row);
    else if (event.target.closest(".open")) this.act("open", line.row);
    else if (this.data.canPick && !event.target.closest("a[href], label")) this.pick(line.row);
  }

  /** Show the details of a row next to the list, or hide those that are shown. */
  pick(row) {
    this.setTriggerValue("pick", row.ref === this.data.picked ? null : row.ref);
    if (row.ref !== this.data.picked) this.seek(DETAILS);
  }

  /** Below the list, on a narrow screen, the details come into view. */
  seek(tries) {
    const details = document.querySelector(".st-key-details");
    if (details && this.data.picked) {
      if (details.getBoundingClientRect().top > innerHeight - NARROWEST) details.scrollIntoView();
    } else if (tries) setTimeout(() => this.seek(tries - 1), 100);
  }

  /** K: the ticked rows of all pages; this row if none is ticked. */
  kick(row) {
    if (!this.ticks.size && !this.data.selected) this.act("kick", row);
    else if (this.data.canAct) this.ask(null);
  }

  act(name, row) {
    if (name === "open") this.setTriggerValue("open", row.ref);
    else if (!row.ended && this.data.canAct) this.ask(row.ref);
  }

  /** Open the dialog of a kick. When it closes, it cannot return the focus: it does not see into this shadow root. */
  ask(ref) {
    this.setTriggerValue("kick", ref);
    const [row, control] = [this.current, this.root.getRootNode().activeElement];
    let wasOpen = false;
    this.dialog?.disconnect();
    this.dialog = new MutationObserver(() => {
      const isOpen = document.querySelector('[role="dialog"]') !== null;
      if (isOpen || !wasOpen) {
        wasOpen = isOpen;
        return;
      }
      this.dialog.disconnect();
      if (document.activeElement !== document.body) return;
      const line = this.lines.get(row) ?? this.lines.get(this.current);
      (line?.contains(control) && refocusable(control) ? control : line)?.focus();
    });
    this.dialog.observe(document.body, { childList: true, subtree: true });
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const line = event.target.closest("tr");
    const isRow = event.target === line;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.step(line, steps[event.key]);
    else if (event.key === " " && isRow && line.box && !line.row.ended) this.tick([line.row.ref], !line.box.checked);
    else if (event.key === " " && isRow) { /* an ended row: the page must not scroll */ }
    else if (event.key === "Enter" && isRow && this.data.canOpen) this.act("open", line.row);
    else if (this.data.canPick && isRow && (event.key === "Enter" || event.key === "ArrowRight")) this.pick(line.row);
    else if (event.key.toLowerCase() === "k" && line.kick) this.kick(line.row);
    else return;
    event.preventDefault();
    event.stopPropagation(); // the button above the list has the same key
  }

  pressedInHead(event) {
    const parts = [...this.head.querySelectorAll("input, button")];
    const at = parts.indexOf(event.target);
    if (event.key === "ArrowRight") parts[Math.min(at + 1, parts.length - 1)].focus();
    else if (event.key === "ArrowLeft") parts[Math.max(at - 1, 0)].focus();
    else if (event.key === "ArrowDown") this.lines.get(this.current)?.focus();
    else return;
    event.preventDefault();
  }

  /** Tab reaches one button of the head, the arrow keys reach the others. */
  reachHead(target) {
    if (target?.localName !== "button") return;
    for (const button of this.head.querySelectorAll("button")) button.tabIndex = button === target ? 0 : -1;
  }

  step(line, by) {
    const rows = [...this.body.rows];
    const next = rows[Math.min(rows.length - 1, Math.max(0, rows.indexOf(line) + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  /** Tab reaches one row and its controls; the arrow keys reach the others. */
  reach(ref) {
    const [old, next] = [this.lines.get(this.current), this.lines.get(ref)];
    if (old) setTabIndex(old, -1);
    if (next) setTabIndex(next, 0);
    this.current = ref;
  }

  // -- For screen readers ----------------------------------------------------------------------------------------------

  announce(before) {
    if (!before) return;
    const live = new Set(before.rows.filter((row) => !row.ended).map((row) => row.ref));
    const ended = this.data.rows.filter((row) => row.ended && live.has(row.ref));
    if (before.list !== this.data.list) this.say(fill(this.words.read, this.data.rows.length));
    else if (ended.length) this.say(ended.map((row) => fill(this.words.ended, row.label, row.ended)).join(" "));
  }

  say(sentence) {
    write(this.status, sentence);
  }
}

function setTabIndex(line, index) {
  for (const part of [line, ...line.querySelectorAll("input, button, a[href]")]) part.tabIndex = index;
}

/** Tickets open in another tab, people in this one. Other addresses are none. */
function link(shown, address) {
  if (/^person\?q=/.test(address ?? "")) shown.href = address;
  else if (/^https?:/.test(address ?? "")) Object.assign(shown, { href: address, target: "_blank", rel: "noopener noreferrer" });
  else shown.removeAttribute("href");
}

function refocusable(node) {
  return !node.disabled && !node.hidden;
}
