// The console's page: it wires the stream, the pages, who asks, the keys and the theme.

import { Feed } from "./feed.js";
import { Frame } from "./frame.js";
import { theme, token } from "./kept.js";
import { byId, made } from "./made.js";
import * as night from "./night.js";

const THEMES = ["auto", "dark", "light"];
const GO_MS = 2000; // a letter that comes later is no page's

const { page, past, view } = night;

let link = { state: "waiting", why: "" };
let drawing = false;

const frame = new Frame(view, () => link);

// Once for each frame at most, however many events come.
function draw() {
  if (drawing || view.facts === null) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    page.show(view);
    frame.draw();
  });
}

const feed = new Feed(
  (kind, data) => {
    const before = view.facts;
    view.take(kind, data);
    if (view.facts !== null) view.skewMs = Date.now() - view.facts.now_ms;
    if (before !== null && (before.pid !== view.facts.pid || before.uptime_s > view.facts.uptime_s)) past.forget();
    draw();
  },
  (state, why) => {
    const changed = state !== link.state;
    link = { state, why };
    page.link(state, why, feed.heardAt);
    if (!changed) return;
    if (state === "live") night.refresh();
    if (state === "login") login(why);
  },
);

// --- who asks

function login(why) {
  byId("token-why").textContent = why;
  byId("token").value = "";
  if (!byId("login").open) byId("login").showModal();
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("token").value.trim();
  if (!/^[\x21-\x7e]+$/.test(text)) {
    byId("token-why").textContent = "A token has letters, digits and signs of ASCII, and no blanks.";
    return;
  }
  token.set(text);
  byId("token").value = "";
  byId("login").close();
  feed.retry();
  frame.open(); // what a page has asked for was asked by nobody
});

// --- the theme

function wear(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name;
}

function nextTheme() {
  const name = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  theme.set(name);
  wear(name);
}

wear(THEMES.includes(theme.get()) ? theme.get() : "auto");
byId("theme").addEventListener("click", nextTheme);

// --- the keys

function help() {
  const rows = [
    ...frame.listed(),
    [["t"], "dark, light, or as the system has it"],
    [["Esc"], "close what is open"],
    [["?"], "this list"],
  ];
  byId("keys").replaceChildren(
    ...rows.map(([keys, words]) => {
      const pressed = keys.flatMap((key) => [made("kbd", "", key), " "]);
      return made("div", "", made("dt", "", ...pressed), made("dd", "", words));
    }),
  );
  byId("help").showModal();
}

let wentAt = -Infinity; // when g was pressed

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const going = event.timeStamp - wentAt < GO_MS ? frame.page(event.key) : undefined;
  wentAt = event.key === "g" && going === undefined ? event.timeStamp : -Infinity;
  const common = { t: nextTheme, "?": help, g: () => {} };
  const act = going !== undefined ? () => frame.console.go(`#/${going.path}`) : frame.keys().get(event.key) ?? common[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
});

byId("help-open").addEventListener("click", help);

// --- and on

setInterval(() => {
  if (link.state === "lost") page.link(link.state, link.why, feed.heardAt); // for how long
  if (link.state === "live" && !document.hidden) night.refresh();
}, 500);

frame.open();
feed.run();
