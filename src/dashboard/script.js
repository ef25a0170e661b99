// Updates the page: each event contains the content of <main>. Pages without events only update ages and handle
// the search key.
"use strict";

const fleet = document.getElementById("fleet");
const state = document.getElementById("state");
const refusal = document.getElementById("refusal");
const events = fleet.dataset.events ? new EventSource(fleet.dataset.events) : null;
// The newest content while the page must not change, else null.
let waiting = null;
let pressed = false;

// Distinguishes the browser tabs of several hubs.
document.title += ` – ${location.host}`;

// Times are relative to now while the page is open. The server uses the same words.
function span(seconds) {
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min`
    : seconds < 172800 ? `${Math.floor(seconds / 3600)} h`
    : `${Math.floor(seconds / 86400)} d`;
}
function grow() {
  for (const time of document.querySelectorAll("time")) {
    const seconds = Math.trunc((Date.now() - Date.parse(time.dateTime)) / 1000);
    time.textContent = seconds <= -60 ? `in ${span(-seconds)}`
      : seconds < -10 ? "in less than 1 min"
      : seconds < 60 ? "just now"
      : `${span(seconds)} ago`;
  }
}
grow();
setInterval(grow, 20000);

addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  event.preventDefault();
  document.getElementById("of")?.focus();
});

// An update would remove a pressed button, so that its click is lost, and the selected text.
function show() {
  if (waiting === null || pressed) return;
  const selection = getSelection();
  if (!selection.isCollapsed && selection.containsNode(fleet, true)) {
    state.textContent = "paused while text is selected";
    return;
  }
  const focused = document.activeElement.id;
  const open = [...fleet.querySelectorAll("details[open]")].map((one) => one.id);
  fleet.innerHTML = waiting;
  waiting = null;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  grow();
  if (events.readyState === EventSource.OPEN) state.textContent = "live";
  // A focused button or link keeps the focus, so that keyboard users keep their position.
  if (focused) document.getElementById(focused)?.focus();
}
for (const type of ["pointerdown", "keydown"]) {
  addEventListener(type, () => { pressed = true; });
}
for (const type of ["pointerup", "pointercancel", "contextmenu", "keyup", "blur"]) {
  addEventListener(type, () => {
    pressed = false;
    // The click comes after the release.
    setTimeout(show);
  });
}
document.addEventListener("selectionchange", show);

if (events) follow();

function follow() {
  // A change does not leave the page, which shows the change in its next update.
  fleet.addEventListener("submit", async (event) => {
    if (event.target.method !== "post") return;
    event.preventDefault();
    refusal.textContent = "";
    const body = new URLSearchParams(new FormData(event.target));
    try {
      const answer = await fetch("act", { method: "POST", body, redirect: "manual" });
      if (answer.type === "opaqueredirect") return event.target.closest("details")?.removeAttribute("open");
      if (answer.status === 401) return location.reload();
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      refusal.textContent = page.querySelector("[role=alert]")?.textContent ?? `refused: ${answer.status}`;
    } catch {
      refusal.textContent = "The dashboard does not respond. The change may not have been made. Try again.";
    }
  });

  events.onopen = () => {
    state.textContent = "live";
  };
  events.onmessage = (event) => {
    waiting = event.data;
    show();
  };
  events.onerror = () => {
    const ended = events.readyState === EventSource.CLOSED;
    state.textContent = ended
      ? "ended: load the page again"
      : "not connected: this is how the fleet was";
  };
}
