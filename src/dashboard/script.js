// Keeps the page current: each event carries the content of <main>.
"use strict";

const fleet = document.getElementById("fleet");
const state = document.getElementById("state");
const refusal = document.getElementById("refusal");
const events = new EventSource("events");
// The newest content while the page stays as it is, else null.
let waiting = null;
let pressed = false;

// Pages of several hubs lie beside each other.
document.title += ` – ${location.host}`;

// An update takes away what is pressed, so that no click happens, and what is selected to be copied.
function show() {
  if (waiting === null || pressed) return;
  const selection = getSelection();
  if (!selection.isCollapsed && selection.containsNode(fleet, true)) {
    state.textContent = "stays as it is while text is selected";
    return;
  }
  const focused = document.activeElement.id;
  fleet.innerHTML = waiting;
  waiting = null;
  if (events.readyState === EventSource.OPEN) state.textContent = "live";
  // A button or link that had the focus keeps it, so that the keyboard stays where it was.
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

// A change keeps the place on the page, which shows the change with its next update.
fleet.addEventListener("submit", async (event) => {
  event.preventDefault();
  refusal.textContent = "";
  const body = new URLSearchParams(new FormData(event.target));
  try {
    const answer = await fetch("act", { method: "POST", body, redirect: "manual" });
    if (answer.type === "opaqueredirect") return;
    if (answer.status === 401) return location.reload();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    refusal.textContent = page.querySelector("[role=alert]")?.textContent ?? `refused: ${answer.status}`;
  } catch {
    refusal.textContent = "The dashboard does not answer, so the change may not be made. Try again.";
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
