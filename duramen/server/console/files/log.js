// The log of one partition, as it lies there: from an offset, from a time, or its end.

import { brief, bytesOf, keyLine, textOf, visible } from "./bytes.js";
import { call } from "./call.js";
import { failure, listed, when } from "./documents.js";
import { made, setText } from "./made.js";
import { address } from "./pages.js";
import { Question } from "./question.js";
import { button, field, input, tableField } from "./table_field.js";
import { valueView } from "./value_view.js";
import { count } from "./words.js";

const LIMIT = 50;
const LINE_BYTES = 512;
const VALUE_BYTES = 64 * 1024;
const COLUMNS = ["offset", "time", "operation", "key", "value", "bytes", "condition", "expiry", "producer"];

let shown = null;

class LogPage {
  constructor(root, console) {
    this.console = console;
    this.table = tableField();
    this.partition = input("partition-number", 5, 6);
    this.partition.inputMode = "numeric";
    this.from = input("from", 24, 40);
    this.from.placeholder = "newest";
    const hint = "an offset, or a time such as 2026-11-27 03:12:07 in this browser's zone; empty: the newest";
    this.form = made("form", "ask", this.table.label, field("partition", this.partition), field("from", this.from, hint), button("show", null));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#typed();
    });
    this.note = made("p", "note-line", "Choose a table and a partition.");
    this.body = made("div", "wide");
    this.question = new Question(this.body);
    this.picked = made("section", "card");
    this.picked.hidden = true;
    const steps = [
      button("oldest", () => this.go("oldest"), "["), button("older", () => this.go("older"), "p"),
      button("newer", () => this.go("newer"), "n"), button("newest", () => this.go("newest"), "]"),
    ];
    root.append(this.form, made("div", "bar", this.note, made("div", "choice", ...steps)), this.picked, this.body);
  }

  open(table, partition = "0", from = "") {
    if (table === undefined) return;
    this.table.node.value = table;
    this.partition.value = partition;
    this.from.value = from.startsWith("t") ? when(Number(from.slice(1))) : from;
    this.ask(table, partition, from);
  }

  close() {
    this.question.end();
  }

  #typed() {
    const from = this.from.value.trim();
    const time = Date.parse(from.replace(" ", "T"));
    const isOffset = /^\d*$/.test(from);
    if (!isOffset && Number.isNaN(time)) {
      this.#fail({ message: "This is neither an offset nor a time such as 2026-11-27 03:12:07." });
      return;
    }
    const parts = [this.table.node.value.trim(), this.partition.value.trim() || "0", isOffset ? from : `t${time}`];
    const there = address("log", ...parts.filter(Boolean));
    if (location.hash === there) this.open(...parts);
    else this.console.go(there);
  }

  go(where) {
    if (this.page === undefined) return;
    const { table, partition, answer } = this.page;
    const to = { oldest: answer.earliest, older: Math.max(answer.earliest, answer.from - LIMIT), newer: answer.next, newest: "" }[where];
    if (where === "newer" && answer.next > answer.latest) this.ask(table, partition, String(answer.from));
    else this.console.go(address("log", ...[table, partition, String(to)].filter(Boolean)));
  }

  async ask(table, partition, from) {
    this.question.end();
    if (!/^\d{1,5}$/.test(partition) || !/^(t-?)?\d{0,15}$/.test(from)) {
      this.#fail({ message: "A partition is a number from 0 on, and so is an offset." });
      return;
    }
    const request = { table, partition: Number(partition), limit: LIMIT, value_bytes_max: LINE_BYTES };
    if (from.startsWith("t")) request.time_ms = Number(from.slice(1));
    else if (from !== "") request.offset = Number(from);
    await this.question.ask(
      (signal) => call("Console/Records", request, { signal, timeout_s: 10 }),
      (answer) => {
        this.page = { table, partition, answer };
        this.#show(table, partition, answer);
      },
      (error) => this.#fail(error),
    );
  }

  #fail(error) {
    this.note.replaceChildren(...failure(error).childNodes);
    this.note.className = "note-line bad";
    this.picked.hidden = true;
    this.body.replaceChildren();
    this.page = this.lines = undefined;
  }

  #show(table, partition, answer) {
    this.note.className = "note-line";
    this.picked.hidden = true;
    const held = answer.latest < answer.earliest ? "holds no record" : `holds offsets ${count(answer.earliest)} to ${count(answer.latest)}`;
    const here = answer.records.length ? `: ${count(answer.records[0].offset)} to ${count(answer.next - 1)} are shown` : answer.latest < answer.earliest ? "" : `: there is none from ${count(answer.from)} on yet`;
    setText(this.note, `The log of ${table}/${partition} ${held}${here}.`);
    const node = made("table", "list log-records");
    node.createTHead().append(made("tr", "", ...COLUMNS.map((name) => made("th", ["offset", "bytes"].includes(name) ? "number" : "", name))));
    const body = node.createTBody();
    this.lines = answer.records.map((record) => rowOf(table, record));
    body.append(...this.lines);
    body.addEventListener("click", (event) => {
      const place = this.lines.indexOf(event.target.closest("tr"));
      if (place >= 0 && !event.target.closest("a")) this.pick(place);
    });
    this.at = -1;
    this.body.replaceChildren(node);
  }

  // Show one record in full.
  async pick(place) {
    const { table, partition, answer } = this.page;
    const record = answer.records[place];
    if (record === undefined) return;
    this.lines[this.at]?.classList.remove("selected");
    this.at = place;
    this.lines[place].classList.add("selected");
    this.lines[place].scrollIntoView({ block: "nearest" });
    this.#pickShow(record);
    if (record.value_bytes <= LINE_BYTES) return;
    const request = { table, partition: Number(partition), offset: record.offset, limit: 1, value_bytes_max: VALUE_BYTES };
    const whole = await call("Console/Records", request, { signal: this.question.signal }).catch(() => null);
    if (this.at === place && whole?.records[0]?.offset === record.offset) this.#pickShow(whole.records[0]);
  }

  #pickShow(record) {
    const { operation, key, value, value_bytes: size, ...others } = record;
    const producer = record.producer_id ? `${record.producer_id}, its record ${record.sequence}` : "none";
    const facts = [
      ["written", when(record.timestamp_ms)],
      ["operation", record.grouped ? `${operation}, of the group of the record before it` : operation],
      ...(record.key_text ? [["fields of the key", visible(record.key_text)]] : []),
      ["key", record.key ? visible(textOf(bytesOf(key))) : "none"],
      ["condition", others.condition || "–"],
      ["expiry", others.expiry || "–"],
      ["producer", producer],
      ["batch", `begins at ${count(record.base_offset)}`],
    ];
    this.picked.hidden = false;
    this.picked.replaceChildren(made("h2", "", `offset ${count(record.offset)}`), listed(facts), ...valueNodes(record, bytesOf(value), size));
  }

  move(by) {
    if (this.lines?.length) this.pick(Math.min(this.lines.length - 1, Math.max(0, this.at + by)));
  }

  unpick() {
    this.picked.hidden = true;
    this.lines?.[this.at]?.classList.remove("selected");
    this.at = -1;
  }
}

// A row as its JSON, and what is stored below it.
function valueNodes({ row }, value, size) {
  if (!row) return [valueView(value, size)];
  const text = new TextEncoder().encode(row);
  return [valueView(text, text.length), made("p", "note-line", `stored in ${count(size)} bytes`)];
}

function rowOf(table, record) {
  if (record.operation === "empty") {
    const last = record.offset + record.span - 1;
    const words = `offsets ${count(record.offset)} to ${count(last)} hold nothing: compacted, given up, or of Kafka itself`;
    const cell = made("td", "dim", words);
    cell.colSpan = COLUMNS.length - 2;
    return made("tr", "", made("td", "number", count(record.offset)), made("td", "", when(record.timestamp_ms)), cell);
  }
  const key = bytesOf(record.key);
  const value = bytesOf(record.value);
  const link = Object.assign(made("a", "", keyLine(key, record.key_text, 60)), { href: address("key", table, textOf(key)) });
  const cells = [
    count(record.offset), when(record.timestamp_ms), record.grouped ? `+ ${record.operation}` : record.operation, key.length ? link : "–",
    record.row ? brief(new TextEncoder().encode(record.row), false, 80) : value.length ? brief(value, record.value_bytes > value.length, 80) : "–", count(record.value_bytes), record.condition === "none" ? "–" : record.condition,
    record.expiry === "none" ? "–" : record.expiry, record.producer_id ? `${String(record.producer_id).slice(0, 8)}…` : "–",
  ];
  const row = made("tr", record.operation === "void" || record.operation === "barrier" ? "warn" : "");
  row.append(...cells.map((cell, at) => made("td", at === 0 || at === 5 ? "number" : "", cell)));
  return row;
}

export function show(root, parts, console) {
  shown ??= new LogPage(root, console);
  shown.open(...parts);
}

export function hide() {
  shown.close();
  shown = null;
}

export const keys = [
  ["j", "the next record", () => shown.move(1)],
  ["k", "the previous record", () => shown.move(-1)],
  ["p", "older records", () => shown.go("older")],
  ["n", "newer records", () => shown.go("newer")],
  ["[", "the oldest records", () => shown.go("oldest")],
  ["]", "the newest records", () => shown.go("newest")],
  ["/", "another offset or time", () => shown.from.select()],
  ["Escape", "", () => shown.unpick()],
];
