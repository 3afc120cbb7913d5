// Tables, partitions and nodes as a map of heat: each row a partition, each column a node, each field a replica.

import { call } from "./call.js";
import { failure } from "./documents.js";
import { made, setText } from "./made.js";
import { address } from "./pages.js";
import { Poll } from "./poll.js";
import { Rows } from "./rows.js";
import { button, field, input } from "./table_field.js";
import { UNKNOWN, brief, clock, count, duration, plural, rate, size } from "./words.js";

const EACH_MS = 3000;
const NARROW = 9; // from so many nodes on a field has no room for its number

const FITS = 24; // so many nodes fit on the screen of a desk, where their names can stay while rows go by

// What a field can show. Writes are of the last seconds, reads an average over the last minutes.
// `of`: the value of a replica, null: not known. `all`: of a node's replicas together.
const KINDS = [
  { key: "writes", words: "writes /s", of: (replica) => replica.rate, text: rate, all: sum },
  { key: "reads", words: "reads /s", of: (replica) => replica.reads_s ?? null, text: rate, all: sum },
  { key: "lag", words: "lag in records", of: (replica) => replica.lag_records, text: brief, all: sum },
  { key: "late", words: "lag in seconds", of: (replica) => replica.lag_ms / 1000, text: duration, all: most },
  { key: "keys", words: "keys", of: (replica) => replica.keys ?? null, text: brief, all: sum },
  { key: "bytes", words: "bytes", of: (replica) => replica.bytes ?? null, text: size, all: sum },
];

const ALL = { name: "all", table: "", replicas: new Map(), wanted: 0, ready: 0 };

function sum(values) {
  return values.length ? values.reduce((total, value) => total + value, 0) : null;
}

function most(values) {
  return values.length ? Math.max(...values) : null;
}

// The replicas of all partitions as the newest answer has them, and how fast each applied since the one before.
export class HeatModel {
  constructor() {
    this.rows = [];
    this.nodes = [];
    this.atMs = null;
    this.serverMs = null;
  }

  take(partitions, nowMs) {
    const before = new Map(this.rows.map((row) => [row.name, row]));
    const spent = this.atMs === null ? 0 : (nowMs - this.atMs) / 1000;
    this.atMs = nowMs;
    this.rows = partitions.map((each) => {
      const name = `${each.table}/${each.partition}`;
      const old = before.get(name);
      const replicas = new Map();
      for (const replica of each.replicas) {
        const was = old?.replicas.get(replica.node);
        const grown = was === undefined || spent <= 0 ? null : replica.applied - was.applied;
        // One that is built anew has applied less than before.
        replicas.set(replica.node, { ...replica, rate: grown === null || grown < 0 ? null : grown / spent });
      }
      return { name, table: each.table, partition: each.partition, wanted: each.wanted, ready: each.ready, replicas };
    });
    this.nodes = [...new Set(this.rows.flatMap((row) => [...row.replicas.keys()]))].sort((one, other) =>
      one.localeCompare(other, "en", { numeric: true }),
    );
  }

  // Of each node, its replicas of some rows together.
  sums(rows, kind) {
    return new Map(
      this.nodes.map((node) => {
        const values = rows.map((row) => row.replicas.get(node)).filter(Boolean).map(kind.of);
        return [node, kind.all(values.filter((value) => value !== null))];
      }),
    );
  }
}

// What this server's stream shows to everybody who may see a table: of each partition its best replica, and no other.
function bestOf(view) {
  const node = view.facts === null || view.facts.role === "router" ? "best replica" : view.facts.name;
  return [...view.partitions.values()]
    .sort((one, other) => (one.table < other.table ? -1 : one.table > other.table ? 1 : one.partition - other.partition))
    .map(({ table, partition, state, reason, applied, lag, lag_s, wanted, ready }) => ({
      table, partition, wanted, ready,
      replicas: [{ node, role: "one of its replicas", state, reason, applied, lag_records: lag, lag_ms: lag_s * 1000 }],
    }));
}

const model = new HeatModel();
let shown = null; // what is in the document; null: the page is hidden

class HeatPage {
  constructor(root, console) {
    this.console = console;
    this.kind = KINDS[0];
    this.selected = null; // [row's name, node]
    this.title = made("h2", "", "tables × partitions × nodes");
    this.find = input("find-tables", 16, 200);
    this.find.type = "search";
    this.find.addEventListener("input", () => this.draw());
    this.choices = KINDS.map((kind) => {
      const choice = button(kind.words, () => this.choose(kind));
      choice.dataset.kind = kind.key;
      return choice;
    });
    this.note = made("p", "note-line");
    this.detail = made("p", "note-line picked");
    this.table = made("table", "heat");
    this.head = this.table.createTHead().insertRow();
    const bar = made("div", "bar", this.title, made("div", "choice", ...this.choices), field("find", this.find));
    this.frame = made("div", "wide", this.table);
    root.append(bar, this.note, this.detail, this.frame);
    this.rows = new Rows(this.table, {
      make: (row) => this.#row(row),
      fill: (node, row) => this.#fill(node, row),
      name: (row) => row.name,
      height: 26,
    });
    this.table.addEventListener("click", (event) => this.#click(event));
    this.poll = new Poll(
      (signal) => this.#ask(signal),
      ({ partitions, refused }) => {
        model.take(partitions, performance.now());
        this.heard = this.console.view.facts?.now_ms ?? null;
        this.error = refused;
        this.draw();
      },
      (error) => {
        this.error = error;
        this.draw();
      },
      EACH_MS,
    );
    this.choose(this.kind);
    this.poll.start();
  }

  close() {
    this.poll.stop();
    this.rows.close();
  }

  async #ask(signal) {
    try {
      const answer = await call("Admin/Partitions", {}, { signal, timeout_s: 10 });
      return { partitions: answer.partitions, refused: null };
    } catch (error) {
      if (error.code !== "permission_denied") throw error;
      return { partitions: bestOf(this.console.view), refused: error };
    }
  }

  choose(kind) {
    this.kind = kind;
    for (const choice of this.choices) choice.setAttribute("aria-pressed", String(choice.dataset.kind === kind.key));
    this.draw();
  }

  next(by) {
    this.choose(KINDS[(KINDS.indexOf(this.kind) + by + KINDS.length) % KINDS.length]);
  }

  draw() {
    const text = this.find.value.trim().toLowerCase();
    this.visible = model.rows.filter((row) => row.name.toLowerCase().includes(text));
    const tables = new Set(this.visible.map((row) => row.table)).size;
    const parts = [plural(tables, "table"), plural(this.visible.length, "partition"), plural(model.nodes.length, "node")];
    setText(this.title, model.rows.length ? parts.join(" × ") : "tables × partitions × nodes");
    this.sums = model.sums(this.visible, this.kind);
    this.hottest = this.#hottest();
    this.hottestSum = Math.max(0, ...[...this.sums.values()].map((value) => value ?? 0));
    this.#say();
    this.#columns();
    this.rows.show(this.visible.length ? [ALL, ...this.visible] : []);
    this.#tell();
  }

  #say() {
    if (this.error?.code === "permission_denied") {
      this.note.replaceChildren("Of each partition its best replica. All of them are ", ...failure(this.error, "not shown to you: ").childNodes);
    } else if (this.error) {
      const age = this.heard ? ` What is shown is of ${clock(this.heard)}.` : "";
      this.note.replaceChildren(...failure(this.error).childNodes, age);
    } else if (model.atMs === null) setText(this.note, "asking the server");
    else if (!model.rows.length) setText(this.note, "There is no table yet.");
    else if (!this.visible.length) setText(this.note, "No partition is found by this text.");
    else setText(this.note, `Each field is a replica, and the first row its node's: ${this.kind.words}, the hottest ${this.kind.text(this.hottest)}. What is not ready has a mark.`);
    this.note.className = this.error && this.error.code !== "permission_denied" ? "note-line bad" : "note-line";
  }

  #hottest() {
    let hottest = 0;
    for (const row of this.visible) for (const replica of row.replicas.values()) hottest = Math.max(hottest, this.kind.of(replica) ?? 0);
    return hottest;
  }

  #columns() {
    const names = model.nodes.join("\n");
    if (this.names === names) return;
    this.names = names;
    this.isNarrow = model.nodes.length >= NARROW;
    this.table.classList.toggle("narrow", this.isNarrow);
    this.frame.classList.toggle("fits", model.nodes.length <= FITS);
    this.head.replaceChildren(
      made("th", "", "partition"),
      ...model.nodes.map((node) => Object.assign(made("th", "node-name", made("span", "", node)), { title: node })),
      made("th", "filler"),
    );
    for (const row of this.rows.rows.values()) row.remove();
    this.rows.rows.clear();
  }

  #row(row) {
    const node = made("tr", row === ALL ? "sums" : "");
    const first = made("td", "name");
    if (row === ALL) first.append("all of the node");
    else {
      const link = made("a", "", row.name);
      link.href = address("table", row.table);
      first.append(link);
    }
    node.append(first, ...model.nodes.map(() => made("td", "field-cell")), made("td", "filler"));
    node.dataset.name = row.name;
    return node;
  }

  #fill(node, row) {
    model.nodes.forEach((name, at) => {
      const cell = node.cells[at + 1];
      const replica = row === ALL ? undefined : row.replicas.get(name);
      const value = row === ALL ? this.sums.get(name) : replica === undefined ? undefined : this.kind.of(replica);
      const hottest = row === ALL ? this.hottestSum : this.hottest;
      const unwell = replica !== undefined && replica.state !== "ready";
      const none = value === undefined;
      const words = none ? "" : value === null ? "?" : this.kind.text(value);
      cell.classList.toggle("none", none);
      cell.classList.toggle("unwell", unwell);
      cell.classList.toggle("selected", this.selected?.[0] === row.name && this.selected?.[1] === name);
      cell.style.setProperty("--heat", none || !value || !hottest ? "0" : Math.sqrt(value / hottest).toFixed(2));
      setText(cell, !unwell ? words : this.isNarrow ? "!" : `! ${replica.state}`);
      cell.title = none ? `${name} has no replica of ${row.name}` : `${row.name} at ${name}: ${unwell ? `${replica.state}, ` : ""}${words === "?" ? UNKNOWN : words}`;
    });
  }

  #click(event) {
    const cell = event.target.closest("td");
    const name = cell?.parentElement.dataset.name;
    const node = model.nodes[(cell?.cellIndex ?? 0) - 1];
    if (name === undefined || node === undefined) return;
    this.selected = this.selected?.[0] === name && this.selected?.[1] === node ? null : [name, node];
    this.draw();
  }

  // What is known of the selected replica.
  #tell() {
    const [name, node] = this.selected ?? [];
    const row = model.rows.find((each) => each.name === name);
    const replica = row?.replicas.get(node);
    this.detail.hidden = replica === undefined;
    if (replica === undefined) return;
    const lag = replica.lag_records ? `${count(replica.lag_records)} records behind for ${duration(replica.lag_ms / 1000)}` : "level";
    const why = replica.reason ? ` (${replica.reason})` : "";
    const facts = [
      `${replica.role}, ${replica.state}${why}`,
      lag,
      `applied ${count(replica.applied)}, ${replica.rate === null ? `rate ${UNKNOWN}` : `${rate(replica.rate)} /s`}`,
      `${count(replica.reads_s)} keys read /s, on average over the last minutes`,
      `${brief(replica.keys)} keys, ${size(replica.bytes)}`,
      `from ${replica.source || UNKNOWN}`,
      `${row.ready} of ${row.wanted} copies ready`,
    ];
    this.detail.replaceChildren(made("strong", "", `${name} at ${node}: `), facts.join(" · "));
  }
}

export function show(root, _, console) {
  shown ??= new HeatPage(root, console);
}

export function hide() {
  shown.close();
  shown = null;
}

export const keys = [
  ["m", "what the fields show: writes, reads, lag, keys, bytes", () => shown.next(1)],
  ["/", "find partitions by name", () => shown.find.focus()],
];
