// A query: a get of one key, a scan of a prefix or a range, or a find of rows by their fields. It changes nothing.

import { base64Of, brief, bytesOf, keyLine, textOf, typed } from "./bytes.js";
import { call } from "./call.js";
import { failure } from "./documents.js";
import { FIND_WORDS, FindForm } from "./find_form.js";
import { newest } from "./key.js";
import { KeyField, definitionOf } from "./key_field.js";
import { made } from "./made.js";
import { address } from "./pages.js";
import { Question } from "./question.js";
import { button, field, input, tableField } from "./table_field.js";
import { count, plural } from "./words.js";

const LIMIT = 100;
const LIMIT_MAX = 500;
const LINE_BYTES = 512;

const KEY_WORDS = "Keys are text, or base64:… where their bytes are no text. An empty prefix is all of the table.";

// What can be asked of every table: the fields of each, which are keys, or the beginnings of some.
const KINDS = {
  get: [],
  prefix: [["prefix", "prefix"]],
  range: [["start", "from key"], ["end", "up to, without"]],
};

let shown = null;

class QueryPage {
  constructor(root, console) {
    this.console = console;
    this.table = tableField();
    this.table.node.addEventListener("change", () => this.#learn());
    this.find = new FindForm();
    this.key = new KeyField();
    this.kinds = [...Object.keys(KINDS), "find"].map((kind) => {
      const choice = button(kind, () => this.choose(kind));
      choice.dataset.kind = kind;
      return choice;
    });
    this.fields = made("div", "fields");
    this.limit = input("limit", 4, 3);
    this.limit.value = String(LIMIT);
    this.limit.inputMode = "numeric";
    this.reverse = made("input", "reverse");
    this.reverse.type = "checkbox";
    this.backwards = field("backwards", this.reverse);
    this.scan = made("div", "fields", field("limit", this.limit, `1 to ${LIMIT_MAX}`), this.backwards);
    this.form = made("form", "ask", this.table.label, made("div", "choice", ...this.kinds), this.fields, this.scan, button("ask", null));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    this.note = made("p", "note-line");
    this.body = made("div", "wide");
    this.question = new Question(this.body);
    this.next = button("next page", () => this.#ask("Scan", this.following));
    this.next.hidden = true;
    root.append(this.form, this.note, this.body, made("div", "bar", this.next));
    this.#offer(false);
    this.choose("prefix");
  }

  open(table) {
    if (table !== undefined) this.table.node.value = table;
    this.#learn();
  }

  close() {
    this.question.end();
    this.#learning.abort();
  }

  choose(kind) {
    this.kind = kind;
    for (const choice of this.kinds) choice.setAttribute("aria-pressed", String(choice.dataset.kind === kind));
    const isFind = kind === "find";
    this.inputs = isFind ? [] : KINDS[kind].map(([name, words]) => ({ name, words, node: input(name, 28, 800) }));
    const asked = kind === "get" ? [this.key.node] : this.inputs.map((each) => field(each.words, each.node));
    this.fields.replaceChildren(...(isFind ? this.find.fields : asked));
    this.scan.hidden = kind === "get";
    this.backwards.hidden = isFind;
    this.note.textContent = isFind ? FIND_WORDS : kind === "get" ? this.key.words : KEY_WORDS;
    this.note.className = "note-line";
  }

  #learning = new AbortController();

  // A find is offered where the table has rows, and an input for each field of the key where keys have some.
  async #learn() {
    this.#learning.abort();
    const { signal } = (this.#learning = new AbortController());
    const definition = await definitionOf(this.table.node.value.trim(), signal);
    if (signal.aborted) return;
    this.key.define(definition);
    this.#offer(definition?.value === "row");
    if (this.kind === "get") this.choose("get");
  }

  #offer(has) {
    this.kinds.find((choice) => choice.dataset.kind === "find").hidden = !has;
    if (!has && this.kind === "find") this.choose("prefix");
  }

  ask() {
    const request = { table: this.table.node.value.trim(), value_bytes_max: LINE_BYTES };
    for (const { name, words, node } of this.inputs) {
      const bytes = typed(node.value);
      if (bytes === null) return this.#fail({ message: `What follows base64: in ${words} is no base64.` });
      request[name] = base64Of(bytes);
    }
    if (this.kind === "get") {
      try {
        return this.#ask("Get", { ...request, value_bytes_max: LINE_BYTES, ...this.key.request });
      } catch (error) {
        return this.#fail(error);
      }
    }
    const limit = Number(this.limit.value);
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) return this.#fail({ message: `The limit is a number from 1 to ${LIMIT_MAX}.` });
    if (this.kind !== "find") return this.#ask("Scan", { ...request, limit, reverse: this.reverse.checked });
    try {
      return this.#ask("Find", { ...request, ...this.find.request, limit });
    } catch (error) {
      return this.#fail(error);
    }
  }

  async #ask(method, request) {
    const begun = performance.now();
    await this.question.ask(
      (signal) => newest((eventual) => call(`Console/${method}`, { ...request, eventual }, { signal, timeout_s: 15 })),
      ({ answer, isOld }) => {
        const entries = answer.entries ?? (answer.entry ? [entryOf(answer)] : []);
        this.#show(method, request, entries, answer, performance.now() - begun, isOld);
      },
      (error) => this.#fail(error),
    );
  }

  #fail(error) {
    this.note.replaceChildren(...failure(error).childNodes);
    this.note.className = "note-line bad";
  }

  #show(method, request, entries, answer, ms, isOld) {
    const isFind = method === "Find";
    const isRow = isFind || Boolean(answer.row);
    const found = entries.length ? plural(entries.length, isFind ? "row" : "key") : "nothing";
    const by = isFind ? ` by ${answer.index ? `the index ${answer.index}` : "the key"}` : "";
    const old = isOld ? ` It may be older than what was written last: ${isOld}` : "";
    this.note.textContent = `Found ${found}${by}${answer.more ? ", and there are more" : ""}, in ${Math.round(ms)} ms.${old}`;
    this.note.className = isOld ? "note-line warn" : "note-line";
    const { prefix: _, ...rest } = request;
    this.following = { ...rest, start: answer.start, end: answer.end };
    this.next.hidden = !answer.more || isFind;
    const node = made("table", "list entries");
    node.createTHead().append(made("tr", "", made("th", "", "key"), made("th", "", isRow ? "row" : "value"), made("th", "number", "bytes"), made("th", "number", "version")));
    node.createTBody().append(
      ...entries.map((each) => {
        const key = bytesOf(each.key);
        const value = bytesOf(each.value);
        const link = Object.assign(made("a", "", keyLine(key, each.key_text, 80)), { href: address("key", request.table, textOf(key)) });
        const cells = [link, value.length ? brief(value, each.value_bytes > value.length, 160) : "–", count(each.value_bytes), count(each.version)];
        return made("tr", "", ...cells.map((cell, at) => made("td", at > 1 ? "number" : "", cell)));
      }),
    );
    this.body.replaceChildren(entries.length ? node : "");
  }
}

// Of a get: a row as JSON in place of its bytes.
function entryOf({ entry, row }) {
  if (!row) return entry;
  const bytes = new TextEncoder().encode(row);
  return { ...entry, value: base64Of(bytes), value_bytes: bytes.length };
}

export function show(root, [table], console) {
  shown ??= new QueryPage(root, console);
  shown.open(table);
}

export function hide() {
  shown.close();
  shown = null;
}

export const keys = [["/", "the first field", () => (shown.inputs[0]?.node ?? (shown.kind === "get" ? shown.key.first : shown.find.where)).select()]];
