// What a reader cannot read on a page: texts that something covers or cuts, and a page that scrolls sideways. A text may
// be cut if it ends with "…" and has a tooltip or opens something, or if its box scrolls. tests/browser/test_layout.py calls it.
() => {
  const NEAR = 2; // px: parts of a pixel, and the overhang of letters
  const UNREAD = '.unseen, [data-testid="stIconMaterial"]'; // for screen readers; names of icons
  const parent = (node) => node.parentElement ?? node.getRootNode().host ?? null;
  const faults = new Set();
  const named = (text) => text.trim().replace(/\s+/g, " ").slice(0, 40);

  for (const box of [document.scrollingElement, document.querySelector('[data-testid="stMain"]')]) {
    if (box && box.scrollWidth > box.clientWidth) faults.add(`the page is ${box.scrollWidth - box.clientWidth} px wider`);
  }

  const at = (x, y) => {
    let found = document.elementFromPoint(x, y);
    while (found?.shadowRoot?.elementFromPoint(x, y)) {
      const inner = found.shadowRoot.elementFromPoint(x, y);
      if (inner === found) break;
      found = inner;
    }
    return found;
  };
  const isIn = (node, other) => {
    for (let up = node; up; up = parent(up)) if (up === other) return true;
    return false;
  };
  const isReadable = (box) => {
    for (let up = box; up; up = parent(up)) {
      if (up.title || /^(BUTTON|A|SUMMARY)$/.test(up.tagName) || up.dataset.baseweb === "select") return true;
    }
    return false;
  };

  /** What is wrong with a text that is drawn in this rectangle; null: nothing, or no part of it is to be seen. */
  function look(text, { left, right, top, bottom }, element) {
    let isCut = false;
    for (let up = element; up; up = parent(up)) {
      const style = getComputedStyle(up), box = up.getBoundingClientRect();
      if (style.display === "contents" || style.display === "inline") continue;
      if (style.overflowX !== "visible") {
        const mayBe = /auto|scroll/.test(style.overflowX) || (style.textOverflow === "ellipsis" && isReadable(up));
        isCut ||= !mayBe && (left < box.left - NEAR || right > box.right + NEAR);
        [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
      }
      if (style.overflowY !== "visible") [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
      if (style.position === "fixed") break;
    }
    [left, right, top, bottom] = [Math.max(left, 0), Math.min(right, innerWidth), Math.max(top, 0), Math.min(bottom, innerHeight)];
    if (right - left < 4 || bottom - top < 4) return null;
    if (isCut) return `cut: ${text}`;
    for (const share of [0.05, 0.5, 0.95]) {
      const found = at(left + share * (right - left), (top + bottom) / 2);
      if (found && !isIn(found, element) && !isIn(element, found)) {
        return `covered: ${text}, by ${named(found.textContent) || found.tagName}`;
      }
    }
    return null;
  }

  function walk(root) {
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      if (node.shadowRoot) walk(node.shadowRoot);
      const element = node.parentElement;
      if (node.nodeType !== Node.TEXT_NODE || !node.data.trim() || !element) continue;
      if (/^(STYLE|SCRIPT|NOSCRIPT)$/.test(element.tagName) || element.closest(UNREAD)) continue;
      if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
      if (parseFloat(getComputedStyle(element).fontSize) === 0) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) {
        if (rect.width < 2 || rect.height < 2) continue;
        const fault = look(named(node.data), rect, element);
        if (fault) faults.add(fault);
      }
    }
  }
  walk(document.body);

  const pen = document.createElement("canvas").getContext("2d");
  for (const field of document.querySelectorAll("input[placeholder], textarea[placeholder]")) {
    const style = getComputedStyle(field);
    pen.font = style.font;
    const place = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (field.value || !field.checkVisibility() || field.tagName === "TEXTAREA") continue;
    const isCut = pen.measureText(field.placeholder).width > place + NEAR;
    if (isCut && !(style.textOverflow === "ellipsis" && isReadable(field))) faults.add(`cut: ${field.placeholder}`);
  }
  return [...faults];
}
