// One key: where it is, what each replica has of it, its value, and its last records in the log.

import { brief, bytesOf, keyLine, textOf, typed, visible } from "./bytes.js";
import { call } from "./call.js";
import { failure, listed, when } from "./documents.js";
import { KeyField, definitionOf, requestOf } from "./key_field.js";
import { keptText, pastNodes, rowNodes } from "./key_view.js";
import { made } from "./made.js";
import { address } from "./pages.js";
import { Question } from "./question.js";
import { button, tableField } from "./table_field.js";
import { valueView } from "./value_view.js";
import { UNKNOWN, count, duration } from "./words.js";

const WRITES = 20;
const VALUE_BYTES = 64 * 1024;
const VERSIONS = 20; // of its past
const VERSION_BYTES = 512; // of each
const FIELDS = "fields"; // in an address: what follows is the key's fields

let shown = null;

class KeyPage {
  constructor(root, console) {
    this.console = console;
    this.table = tableField();
    this.table.node.addEventListener("change", () => this.#learn());
    this.key = new KeyField();
    this.form = made("form", "ask", this.table.label, this.key.node, button("show", null));
    this.words = made("p", "note-line", this.key.words);
    this.answer = made("div", "answer", this.words);
    this.question = new Question(this.answer);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { key, fields } = this.key.place;
      const table = this.table.node.value.trim();
      const there = fields === undefined ? address("key", table, key) : address("key", table, FIELDS, fields);
      if (location.hash === there) this.ask(() => this.key.request);
      else this.console.go(there);
    });
    root.append(this.form, this.answer);
  }

  // `fields`: the key as JSON of its fields, in place of `key`.
  async open(table, key, fields) {
    if (table !== undefined) this.table.node.value = table;
    const isAsked = key !== undefined;
    this.opened = { key, fields };
    if (isAsked) this.again();
    await this.#learn();
    if (!isAsked && this.opened.key === undefined) this.key.first.focus();
  }

  close() {
    this.question.end();
    this.#learning.abort();
  }

  #learning = new AbortController();

  // Keys that have fields have an input for each.
  async #learn() {
    this.#learning.abort();
    const { signal } = (this.#learning = new AbortController());
    const definition = await definitionOf(this.table.node.value.trim(), signal);
    if (signal.aborted) return;
    this.key.define(definition);
    this.words.textContent = this.key.words;
    this.#fill();
  }

  // Show in the form what the address asks for.
  #fill() {
    const { key, fields, text = "" } = this.opened ?? {};
    if (this.key.typed.length) this.key.fill(text || fields || "");
    else if (key !== undefined && fields === undefined) this.key.key.value = key;
  }

  again() {
    const { key, fields } = this.opened ?? {};
    if (key !== undefined) this.ask(() => (fields === undefined ? requestOf(key) : { key_fields: fields }));
  }

  async ask(request) {
    this.question.end();
    const table = this.table.node.value.trim();
    let asked;
    try {
      asked = { table, value_bytes_max: VALUE_BYTES, ...request() };
    } catch (error) {
      this.answer.replaceChildren(failure(error));
      return;
    }
    await this.question.ask(
      (signal) => story(asked, signal),
      ({ found, explained, past }) => {
        if (found.value && this.opened) this.opened.text = found.value.answer.key_text;
        this.#fill();
        this.answer.replaceChildren(...keyNodes(found), ...pastNodes(table, found, past), ...storyNodes(table, explained));
      },
      (error) => this.answer.replaceChildren(failure(error)),
    );
  }
}

// What the key has, what it had, and its records. A key of fields has bytes when the server has said them.
async function story(asked, signal) {
  const { table } = asked;
  const explain = (key) => settled(call("Admin/Explain", { table, key, writes: WRITES }, { signal, timeout_s: 15 }));
  const known = asked.key === undefined ? null : explain(asked.key);
  const found = await settled(newest((eventual) => call("Console/Get", { ...asked, eventual }, { signal })));
  const key = found.value?.answer.key;
  const more = { ...asked, value_bytes_max: VERSION_BYTES, versions: VERSIONS, eventual: Boolean(found.value?.isOld) };
  const past = found.value?.answer.keeps ? settled(call("Console/Get", more, { signal })) : null;
  return { found, past: await past, explained: await (known ?? (key ? explain(key) : null)) };
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

function keyNodes({ value, error }) {
  if (error) return [failure(error)];
  const { answer, isOld } = value;
  const key = bytesOf(answer.key);
  const title = made("h2", "page-title", keyLine(key, answer.key_text));
  const entry = answer.entry;
  const place = [
    ...(answer.key_text ? [["fields of the key", visible(answer.key_text)]] : []),
    ["key", `${visible(textOf(key))}, ${count(key.length)} bytes`],
    ["partition", String(answer.partition)],
    ["slot", answer.slot === undefined ? `none: placed by ${answer.partitioner}` : count(answer.slot)],
    ["read at offset", count(answer.applied)],
  ];
  if (entry) place.push(["version", count(entry.version)], ["expires", expiryText(entry.expires_at_ms, answer.now_ms)]);
  if (answer.keeps) place.push(["of its past is kept", keptText(answer.keeps)]);
  const nodes = [title];
  if (isOld) nodes.push(made("p", "note-line warn", `It may be older than what was written last: ${isOld}`));
  nodes.push(listed(place));
  if (answer.row) nodes.push(...rowNodes(answer.row));
  else nodes.push(entry ? valueView(bytesOf(entry.value), entry.value_bytes) : made("p", "note-line", "The key is not there."));
  return [made("section", "card", ...nodes)];
}

// By the server's clock: the browser's may be wrong.
function expiryText(ms, nowMs) {
  if (!ms) return "never";
  return ms > nowMs ? `${when(ms)}, in ${duration((ms - nowMs) / 1000)}` : `${when(ms)}: when the partition's log time is there`;
}

function storyNodes(table, explained) {
  if (explained === null) return [];
  const { value, error } = explained;
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

export function show(root, [table, key, fields], console) {
  shown ??= new KeyPage(root, console);
  shown.open(table, key, fields);
}

export function hide() {
  shown.close();
  shown = null;
}

export const keys = [
  ["r", "ask again", () => shown.again()],
  ["/", "another key", () => shown.key.first.select()],
];
