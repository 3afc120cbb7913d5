// The console's page: it wires the stream, the history, what is drawn, the keys and the theme.

import { Feed } from "./feed.js";
import { theme, token } from "./kept.js";
import { NightPage, byId } from "./night_page.js";
import { PartitionTable } from "./partition_table.js";
import { Past } from "./past.js";
import { ServerView } from "./server_view.js";

const THEMES = ["auto", "dark", "light"];

const view = new ServerView();
const page = new NightPage();
const past = new Past(
  (answer) => page.past(answer, view),
  (name) => table.graph(name),
);
const table = new PartitionTable(view, past);

let link = { state: "waiting", why: "" };
let drawing = false;

// Once for each frame at most, however many events come.
function draw() {
  if (drawing || view.facts === null) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    table.show(page.show(view));
  });
}

const feed = new Feed(
  (kind, data) => {
    const before = view.facts;
    view.take(kind, data);
    if (before !== null && (before.pid !== view.facts.pid || before.uptime_s > view.facts.uptime_s)) past.forget();
    draw();
  },
  (state, why) => {
    const changed = state !== link.state;
    link = { state, why };
    page.link(state, why, feed.heardAt);
    if (!changed) return;
    if (state === "live") past.refresh();
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

// --- the span of the graphs

function turn() {
  past.turn();
  byId("span").textContent = past.words;
  past.refresh();
  draw();
}

byId("span").addEventListener("click", turn);

// --- the keys

const KEYS = {
  j: () => table.move(1),
  k: () => table.move(-1),
  ArrowDown: () => table.move(1),
  ArrowUp: () => table.move(-1),
  t: nextTheme,
  w: turn,
  "?": () => byId("help").showModal(),
  "/": () => byId("find").focus(),
  Escape: () => table.select(""),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target instanceof HTMLInputElement) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = KEYS[event.key];
  if (key === undefined) return;
  event.preventDefault();
  key();
});

byId("help-open").addEventListener("click", KEYS["?"]);
byId("find").addEventListener("input", draw);

// --- and on

setInterval(() => {
  if (link.state === "lost") page.link(link.state, link.why, feed.heardAt); // for how long
  if (link.state === "live" && !document.hidden) past.refresh();
}, 500);

feed.run();
