// Keeps the page current: each event carries the content of <main>.
"use strict";

const fleet = document.getElementById("fleet");
const state = document.getElementById("state");
const events = new EventSource("events");

events.onopen = () => {
  state.textContent = "live";
};
events.onmessage = (event) => {
  fleet.innerHTML = event.data;
};
events.onerror = () => {
  state.textContent = "not connected: this is how the fleet was";
};
