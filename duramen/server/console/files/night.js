// The night page: what needs somebody, the server in numbers, its nodes and its partitions.

import { byId } from "./made.js";
import { NightChanges } from "./night_changes.js";
import { NightPage } from "./night_page.js";
import { PartitionTable } from "./partition_table.js";
import { Past } from "./past.js";
import { ServerView } from "./server_view.js";

export const view = new ServerView();
export const page = new NightPage();
export const past = new Past(
  (answer) => page.past(answer, view),
  (name) => table.graph(name),
);
const table = new PartitionTable(view, past);
const changes = new NightChanges(() => past.span, (found) => page.mark(found));

let shown = false;

export function show() {
  shown = true;
  byId("night").hidden = false;
}

export function hide() {
  shown = false;
  table.select("");
  byId("night").hidden = true;
}

export function draw() {
  table.show(view.counts());
}

// Ask for what is missing of the graphs.
export function refresh() {
  if (!shown) return;
  past.refresh();
  changes.refresh(view.facts);
}

function turn() {
  past.turn();
  changes.forget();
  byId("span").textContent = past.words;
  past.refresh();
  draw();
}

export const keys = [
  ["j", "the next partition", () => table.move(1)],
  ["k", "the previous partition", () => table.move(-1)],
  ["ArrowDown", "", () => table.move(1)],
  ["ArrowUp", "", () => table.move(-1)],
  ["/", "find partitions by name or state", () => byId("find").focus()],
  ["w", "graphs of the last week in place of the last hour, and back", turn],
  ["Escape", "", () => table.select("")],
];

byId("span").addEventListener("click", turn);
byId("find").addEventListener("input", () => view.facts !== null && draw());
