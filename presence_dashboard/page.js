// What Streamlit has no word for: "/" goes to the search box, a hidden tab pauses, a choice outlives the visit.
(() => {
  const PAUSE_AFTER = 15_000; // ms: who looks away for a moment finds the page as it was

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

  // A switch that nobody sees tells the server whether somebody looks: its live parts rest meanwhile.
  let waiting;
  const watch = () => {
    clearTimeout(waiting);
    waiting = setTimeout(tell, document.hidden ? PAUSE_AFTER : 0);
  };
  document.addEventListener("visibilitychange", watch);
  if (document.hidden) watch(); // opened behind other tabs
  function tell() {
    const hidden = document.querySelector(".st-key-tab-hidden input");
    if (hidden && hidden.checked !== document.hidden) hidden.click();
  }

  // How often live figures renew themselves stands in the name of a container, and is kept for a year.
  let saving;
  for (const act of ["click", "keyup"]) {
    document.addEventListener(act, () => {
      clearTimeout(saving);
      saving = setTimeout(remember, 1_500);
    }, true);
  }
  function remember() {
    const named = document.querySelector('[class*="st-key-every-"]');
    const every = named && named.className.match(/st-key-every-(\d+)/);
    if (every) document.cookie = `presence_every=${every[1]}; Path=/; Max-Age=31536000; SameSite=Lax`;
  }
})();
