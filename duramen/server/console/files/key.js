// One key: where it is, what each replica has of it, its value, and its last records in the log.

import { base64Of, brief, bytesOf, textOf, typed } from "./bytes.js";
import { call } from "./call.js";
import { failure, listed, when } from "./documents.js";
import { made } from "./made.js";
import { address } from "./pages.js";
import { Question } from "./question.js";
import { button, field, input, tableField } from "./table_field.js";
import { valueView } from "./value_view.js";
import { UNKNOWN, count, duration } from "./words.js";

const WRITES = 20;
const VALUE_BYTES = 64 * 1024;

let shown = null;

class KeyPage {
  constructor(root, console) {
    this.console = console;
    this.table = tableField();
    this.key = input("key", 40, 800);
    this.form = made("form", "ask", this.table.label, field("key", this.key, "text, or base64:… for bytes that are no text"), button("show", null));
    this.answer = made("div", "answer", made("p", "note-line", "A key is text, or base64:… where its bytes are no text."));
    this.question = new Question(this.answer);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const there = address("key", this.table.node.value.trim(), this.key.value);
      if (location.hash === there) this.ask();
      else this.console.go(there);
    });
    root.append(this.form, this.answer);
  }

  open(table, key) {
    if (table !== undefined) this.table.node.value = table;
    if (key === undefined) return this.key.focus();
    this.key.value = key;
    return this.ask();
  }

  close() {
    this.question.end();
  }

  async ask() {
    this.question.end();
    const table = this.table.node.value.trim();
    const key = typed(this.key.value);
    if (key === null || !key.length) {
      this.answer.replaceChildren(made("p", "note-line bad", key === null ? "What follows base64: is no base64." : "A key has one byte at least."));
      return;
    }
    const asked = { table, key: base64Of(key), value_bytes_max: VALUE_BYTES };
    await this.question.ask(
      (signal) =>
        Promise.all([
          settled(newest((eventual) => call("Console/Get", { ...asked, eventual }, { signal }))),
          settled(call("Admin/Explain", { table, key: asked.key, writes: WRITES }, { signal, timeout_s: 15 })),
        ]),
      ([found, explained]) => this.answer.replaceChildren(...keyNodes(key, found), ...storyNodes(table, explained)),
      (error) => this.answer.replaceChildren(failure(error)),
    );
  }
}

const settled = (promise) => promise.then((value) => ({ value }), (error) => ({ error }));

// What the newest state has; where the log does not answer, what a replica has.
export async function newest(ask) {
  try {
    return { answer: await ask(false), isOld: "" };
  } catch (error) {
    if (!error.retryable || error.code === "disconnected") throw error;
    return { answer: await ask(true), isOld: error.message };
  }
}

function keyNodes(key, { value, error }) {
  const title = made("h2", "page-title", brief(key));
  if (error) return [title, failure(error)];
  const { answer, isOld } = value;
  const entry = answer.entry;
  const place = [
    ["key", `${textOf(key)}, ${count(key.length)} bytes`],
    ["partition", String(answer.partition)],
    ["slot", answer.slot === undefined ? `none: placed by ${answer.partitioner}` : count(answer.slot)],
    ["read at offset", count(answer.applied)],
  ];
  if (entry) place.push(["version", count(entry.version)], ["expires", expiryText(entry.expires_at_ms, answer.now_ms)]);
  const nodes = [title];
  if (isOld) nodes.push(made("p", "note-line warn", `It may be older than what was written last: ${isOld}`));
  nodes.push(listed(place));
  nodes.push(entry ? valueView(bytesOf(entry.value), entry.value_bytes) : made("p", "note-line", "The key is not there."));
  return [made("section", "card", ...nodes)];
}

// By the server's clock: the browser's may be wrong.
function expiryText(ms, nowMs) {
  if (!ms) return "never";
  return ms > nowMs ? `${when(ms)}, in ${duration((ms - nowMs) / 1000)}` : `${when(ms)}: when the partition's log time is there`;
}

function storyNodes(table, { value, error }) {
  if (error) return [made("section", "card", made("h2", "", "replicas, and the last records in the log"), failure(error))];
  const replicas = made("table", "list");
  const heads = ["node", "role", "state", "applied", "lag", "version", "value", "expires"];
  replicas.createTHead().append(made("tr", "", ...heads.map((each) => made("th", "", each))));
  replicas.createTBody().append(
    ...value.replicas.map((each) => {
      const held = each.error ? each.error : each.present ? lineOf(each.value, each.value_bytes) : "not there";
      const cells = [each.node, each.role, each.state, count(each.applied), count(Math.max(0, value.latest - each.applied)), each.present ? count(each.version) : "–", held, each.expires_at_ms ? when(each.expires_at_ms) : "–"];
      return made("tr", each.error || each.state !== "ready" ? "warn" : "", ...cells.map((cell) => made("td", "", cell)));
    }),
  );
  const all = value.searched_from <= value.earliest;
  const reach = all ? `all of the log, which begins at ${count(value.earliest)}` : `offsets ${count(value.searched_from)} to ${count(value.latest)}; what is older was not looked at`;
  const judge = value.verdicts_of ? `, verdicts of ${value.verdicts_of}` : "";
  return [
    made("section", "card", made("h2", "", `replicas of ${value.table}/${value.partition}, whose log ends at ${count(value.latest)}`), made("div", "wide", replicas)),
    made("section", "card", made("h2", "", "its last records in the log"), made("p", "note-line", `Looked through ${reach}${judge}.`), made("div", "wide", writesTable(table, value))),
  ];
}

function writesTable(table, value) {
  if (!value.writes.length) return made("p", "note-line", "There is none in what was looked through.");
  const node = made("table", "list");
  const heads = ["offset", "time", "operation", "value", "condition", "expiry", "producer", "verdict"];
  node.createTHead().append(made("tr", "", ...heads.map((each) => made("th", "", each))));
  node.createTBody().append(
    ...value.writes.map((each) => {
      const link = Object.assign(made("a", "", count(each.offset)), { href: address("log", table, value.partition, each.offset) });
      const cells = [link, when(each.timestamp_ms), each.grouped ? `${each.operation}, of a group` : each.operation, lineOf(each.value, each.value_bytes), each.condition, each.expiry, each.producer_id ? String(each.producer_id) : "–", each.verdict || UNKNOWN];
      return made("tr", each.verdict.startsWith("void") ? "dim" : "", ...cells.map((cell) => made("td", "", cell)));
    }),
  );
  return node;
}

// Of what explain says: text, or base64:…, of the first bytes.
function lineOf(text, whole) {
  const bytes = typed(text) ?? new Uint8Array();
  const line = brief(bytes, whole > bytes.length);
  return whole > bytes.length ? `${line} (${count(whole)} bytes)` : line || "–";
}

export function show(root, [table, key], console) {
  shown ??= new KeyPage(root, console);
  shown.open(table, key);
}

export function hide() {
  shown.close();
  shown = null;
}

export const keys = [
  ["r", "ask again", () => shown.key.value && shown.ask()],
  ["/", "another key", () => shown.key.select()],
];
