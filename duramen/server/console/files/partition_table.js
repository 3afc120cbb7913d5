// The table of partitions. Only rows that are on the screen, and a few around them, are in the document: a thousand
// partitions cost as much as thirty.

import { auditFacts, countsText, isDifferent } from "./audited.js";
import { byId, made } from "./made.js";
import { Plot } from "./plot.js";
import { UNKNOWN, brief, count, duration, perSecond, plural, rate } from "./words.js";

const AROUND = 8; // rows above and below the screen
const ROW_PX = 36; // until a row has been measured

const COLUMNS = [
  { name: "partition", of: (each) => each.name },
  { name: "state", of: (each) => each.state },
  { name: "state for", of: (each, view) => since(each, view) },
  { name: "copies", of: (each) => `${each.ready}/${each.wanted}`, number: true },
  { name: "written /s", of: (each) => rate(each.written_per_s), number: true },
  { name: "applied /s", of: (each) => rate(each.applied_per_s), number: true },
  { name: "lag", of: (each) => (each.lag ? brief(each.lag) : "–"), number: true },
  { name: "lagging for", of: (each) => (each.lag ? duration(each.lag_s) : "–"), number: true },
  { name: "trend", of: (each) => trend(each) },
  { name: "level in", of: (each) => level(each) },
  { name: "proof", of: (each) => proof(each) },
  { name: "graph", of: () => "" },
];

function since(each, view) {
  const seconds = view.stateFor(each);
  return seconds === null ? `≥ ${duration(view.facts.uptime_s)}` : duration(seconds);
}

function trend(each) {
  if (!each.lag) return "–";
  if (each.lag_per_s === null) return UNKNOWN;
  if (each.lag_per_s === 0) return "steady";
  return each.lag_per_s > 0 ? `▲ ${rate(each.lag_per_s)} /s` : `▼ ${rate(-each.lag_per_s)} /s`;
}

function level(each) {
  if (!each.lag) return "–";
  if (each.lag_per_s === null) return UNKNOWN;
  return each.level_in_s === null ? "never at this rate" : duration(each.level_in_s);
}

// Is what was folded what the log holds? Compared once a minute. And what audits found of exports and sessions.
function proof(each) {
  if (each.differs || isDifferent(each)) return "different";
  return [folded(each), countsText(each)].filter(Boolean).join(", ");
}

function folded(each) {
  if (each.applied < 0) return "–";
  if (each.proven < 0) return UNKNOWN;
  return each.proven >= each.applied ? "equal" : `equal to ${brief(each.proven)}`;
}

const style = (each) => (!each.readable || each.differs || isDifferent(each) ? "bad" : each.well ? "" : "warn");

export class PartitionTable {
  // `past`: the graphs. `view`: the partitions.
  constructor(view, past) {
    this.view = view;
    this.past = past;
    this.rows = new Map(); // name → what is in the document
    this.sorted = [];
    this.selected = "";
    this.height = ROW_PX;
    this.above = made("tr", "space");
    this.below = made("tr", "space");
    this.table = byId("partitions");
    this.body = this.table.tBodies[0];
    this.body.append(this.above, this.below);
    this.table.tHead.rows[0].append(...COLUMNS.map((each) => made("th", each.number ? "number" : "", each.name)));
    this.body.addEventListener("click", (event) => this.select(event.target.closest("tr")?.dataset.name ?? ""));
    for (const name of ["scroll", "resize"]) addEventListener(name, () => this.draw(), { passive: true });
  }

  // Newly sorted, and drawn.
  show(sums) {
    const text = byId("find").value;
    this.sorted = this.view.sorted(text);
    const unwell = sums.unwell ? `, ${count(sums.unwell)} not well` : sums.all ? ", all well" : "";
    const parts = [
      sums.unreadable ? `${count(sums.unreadable)} unreadable` : "",
      sums.behind ? `${count(sums.behind)} behind` : "",
      sums.missing ? `${count(sums.missing)} with copies missing` : "",
    ].filter(Boolean);
    byId("counts").textContent = plural(sums.all, "partition") + unwell + (parts.length ? `: ${parts.join(", ")}` : "");
    byId("none").hidden = this.sorted.length > 0;
    byId("none").textContent = sums.all ? "No partition is found by this text." : "There is no table yet.";
    this.table.hidden = this.sorted.length === 0;
    this.draw();
    this.detail();
  }

  draw() {
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.height) - AROUND);
    const last = Math.max(first, Math.ceil((innerHeight - top) / this.height)) + AROUND;
    const shown = this.sorted.slice(first, last);
    const names = new Set(shown.map((each) => each.name));
    for (const [name, row] of this.rows) {
      if (names.has(name)) continue;
      row.node.remove();
      this.rows.delete(name);
    }
    let before = this.above;
    for (const each of shown) {
      let row = this.rows.get(each.name);
      if (row === undefined) {
        row = new TableRow(each.name);
        this.rows.set(each.name, row);
        this.graph(each.name);
      }
      if (before.nextSibling !== row.node) before.after(row.node);
      before = row.node;
      row.show(each, this.view, each.name === this.selected);
    }
    this.above.style.height = `${first * this.height}px`;
    this.below.style.height = `${Math.max(0, this.sorted.length - first - shown.length) * this.height}px`;
    const measured = shown.length ? this.rows.get(shown[0].name).node.offsetHeight : 0;
    if (measured && Math.abs(measured - this.height) > 1) {
      this.height = measured;
      requestAnimationFrame(() => this.draw());
    }
    this.past.wanted = names;
    if (this.selected) names.add(this.selected);
  }

  // The last hour of one partition has come.
  graph(name) {
    const known = this.past.partitions.get(name);
    const row = this.rows.get(name);
    if (known === undefined) return;
    if (row !== undefined) row.graph(known);
    if (name === this.selected) this.detail();
  }

  // Select by name; the same one again: none.
  select(name) {
    this.selected = name === this.selected ? "" : name;
    this.draw();
    this.detail();
  }

  // The next one (1) or the previous one (-1), which is scrolled to.
  move(by) {
    if (!this.sorted.length) return;
    const at = this.sorted.findIndex((each) => each.name === this.selected);
    const next = at < 0 ? (by > 0 ? 0 : this.sorted.length - 1) : Math.min(this.sorted.length - 1, Math.max(0, at + by));
    this.selected = this.sorted[next].name;
    const top = this.body.getBoundingClientRect().top + next * this.height;
    const room = innerHeight - byId("detail").offsetHeight - 2 * this.height;
    if (top < this.height) scrollBy(0, top - 2 * this.height);
    else if (top > room) scrollBy(0, top - room);
    this.draw();
    this.detail();
  }

  detail() {
    const node = byId("detail");
    const each = this.view.partitions.get(this.selected);
    node.hidden = each === undefined;
    if (each === undefined) return;
    const facts = [
      ["state", `${each.state}, for ${since(each, this.view)}`],
      ["why", each.reason || (each.state === "ready" ? "it is well" : UNKNOWN)],
      ["written", `${count(each.last + 1)} records, ${perSecond(each.written_per_s)}`],
      ["applied up to", `${count(each.applied)} of ${count(each.last)}, ${perSecond(each.applied_per_s)}`],
      ["lag", each.lag ? `${count(each.lag)} records for ${duration(each.lag_s)}, ${trend(each)}, level in: ${level(each)}` : "level"],
      ["copies", `${each.ready} ready of ${each.wanted}`],
      ["proof", each.differs || (each.proven < 0 ? UNKNOWN : `equal to the log up to ${count(each.proven)}`)],
      ...auditFacts(each),
    ];
    const list = made("dl", "", ...facts.map(([name, text]) => made("div", "", made("dt", "", name), made("dd", "", text))));
    const graphs = this.past.partitions.get(each.name);
    const plots = [];
    if (graphs !== undefined) {
      for (const [name, values] of [["written /s", graphs.written], ["lag", graphs.lag]]) {
        const plot = new Plot(48, `${name} of ${each.name}, the ${this.past.words}`);
        plot.show(values);
        const known = values.filter((value) => value !== null);
        const most = known.length ? `most ${count(Math.max(...known))}` : UNKNOWN;
        plots.push(made("figure", name === "lag" ? "lag" : "", made("figcaption", "", `${name}, the ${this.past.words}: ${most}`), plot.node));
      }
    }
    node.replaceChildren(made("h2", style(each), each.name), list, made("div", "figures", ...plots));
  }
}

class TableRow {
  constructor(name) {
    this.node = made("tr", "", ...COLUMNS.map((each) => made("td", each.number ? "number" : "")));
    this.node.dataset.name = name;
    this.plot = new Plot(24, name);
    this.node.lastChild.append(this.plot.node);
  }

  show(each, view, selected) {
    this.node.className = `${style(each)}${selected ? " selected" : ""}`;
    this.node.title = each.reason;
    COLUMNS.slice(0, -1).forEach((column, place) => {
      const cell = this.node.cells[place];
      const text = column.of(each, view);
      if (cell.textContent !== text) cell.textContent = text;
      cell.classList.toggle("unknown", text === UNKNOWN);
    });
  }

  // The lag of the hour where there was some, else the writes.
  graph({ lag, written }) {
    const lagged = lag.some((value) => value > 0);
    this.node.lastChild.className = lagged ? "lag" : "";
    this.plot.show(lagged ? lag : written);
    this.plot.node.setAttribute("aria-label", lagged ? "lag" : "written");
  }
}
