// Keeps the page current: each event carries the content of <main>.
"use strict";

const fleet = document.getElementById("fleet");
const state = document.getElementById("state");
const events = new EventSource("events");

events.onopen = () => {
  state.textContent = "live";
};
events.onmessage = (event) => {
  const focused = document.activeElement.id;
  fleet.innerHTML = event.data;
  // A button or link that had the focus keeps it, so that the keyboard stays where it was.
  if (focused) document.getElementById(focused)?.focus();
};
events.onerror = () => {
  const ended = events.readyState === EventSource.CLOSED;
  state.textContent = ended
    ? "ended: load the page again"
    : "not connected: this is how the fleet was";
};
