// A query: a get of one key, or a scan of a prefix or a range. It changes nothing.

import { base64Of, brief, bytesOf, textOf, typed } from "./bytes.js";
import { call } from "./call.js";
import { failure } from "./documents.js";
import { newest } from "./key.js";
import { made } from "./made.js";
import { address } from "./pages.js";
import { Question } from "./question.js";
import { button, field, input, tableField } from "./table_field.js";
import { count, plural } from "./words.js";

const LIMIT = 100;
const LIMIT_MAX = 500;
const LINE_BYTES = 512;

// What can be asked: the fields of each. `bytes`: it is a key, or the beginning of one.
const KINDS = {
  get: [["key", "key"]],
  prefix: [["prefix", "prefix"]],
  range: [["start", "from key"], ["end", "up to, without"]],
};

let shown = null;

class QueryPage {
  constructor(root, console) {
    this.console = console;
    this.table = tableField();
    this.kinds = Object.keys(KINDS).map((kind) => {
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
    this.scan = made("div", "fields", field("limit", this.limit, `1 to ${LIMIT_MAX}`), field("backwards", this.reverse));
    this.form = made("form", "ask", this.table.label, made("div", "choice", ...this.kinds), this.fields, this.scan, button("ask", null));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    this.note = made("p", "note-line", "Keys are text, or base64:… where their bytes are no text. An empty prefix is all of the table.");
    this.body = made("div", "wide");
    this.question = new Question(this.body);
    this.next = button("next page", () => this.#ask(this.following));
    this.next.hidden = true;
    root.append(this.form, this.note, this.body, made("div", "bar", this.next));
    this.choose("prefix");
  }

  open(table) {
    if (table !== undefined) this.table.node.value = table;
  }

  close() {
    this.question.end();
  }

  choose(kind) {
    this.kind = kind;
    for (const choice of this.kinds) choice.setAttribute("aria-pressed", String(choice.dataset.kind === kind));
    this.inputs = KINDS[kind].map(([name, words]) => ({ name, words, node: input(name, 28, 800) }));
    this.fields.replaceChildren(...this.inputs.map((each) => field(each.words, each.node)));
    this.scan.hidden = kind === "get";
  }

  ask() {
    const request = { table: this.table.node.value.trim(), value_bytes_max: LINE_BYTES };
    for (const { name, words, node } of this.inputs) {
      const bytes = typed(node.value);
      if (bytes === null) return this.#fail({ message: `What follows base64: in ${words} is no base64.` });
      request[name] = base64Of(bytes);
    }
    if (this.kind === "get") return this.#ask(request);
    const limit = Number(this.limit.value);
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) return this.#fail({ message: `The limit is a number from 1 to ${LIMIT_MAX}.` });
    return this.#ask({ ...request, limit, reverse: this.reverse.checked });
  }

  async #ask(request) {
    const method = this.kind === "get" ? "Console/Get" : "Console/Scan";
    const begun = performance.now();
    await this.question.ask(
      (signal) => newest((eventual) => call(method, { ...request, eventual }, { signal, timeout_s: 15 })),
      ({ answer, isOld }) => {
        const entries = answer.entries ?? (answer.entry ? [answer.entry] : []);
        this.#show(request, entries, answer, performance.now() - begun, isOld);
      },
      (error) => this.#fail(error),
    );
  }

  #fail(error) {
    this.note.replaceChildren(...failure(error).childNodes);
    this.note.className = "note-line bad";
  }

  #show(request, entries, answer, ms, isOld) {
    const found = entries.length ? plural(entries.length, "key") : "nothing";
    const old = isOld ? ` It may be older than what was written last: ${isOld}` : "";
    this.note.textContent = `Found ${found}${answer.more ? ", and there are more" : ""}, in ${Math.round(ms)} ms.${old}`;
    this.note.className = isOld ? "note-line warn" : "note-line";
    const { prefix: _, ...rest } = request;
    this.following = { ...rest, start: answer.start, end: answer.end };
    this.next.hidden = !answer.more;
    const node = made("table", "list entries");
    node.createTHead().append(made("tr", "", made("th", "", "key"), made("th", "", "value"), made("th", "number", "bytes"), made("th", "number", "version")));
    node.createTBody().append(
      ...entries.map((each) => {
        const key = bytesOf(each.key);
        const value = bytesOf(each.value);
        const link = Object.assign(made("a", "", brief(key, false, 80)), { href: address("key", request.table, textOf(key)) });
        const cells = [link, value.length ? brief(value, each.value_bytes > value.length, 160) : "–", count(each.value_bytes), count(each.version)];
        return made("tr", "", ...cells.map((cell, at) => made("td", at > 1 ? "number" : "", cell)));
      }),
    );
    this.body.replaceChildren(entries.length ? node : "");
  }
}

export function show(root, [table], console) {
  shown ??= new QueryPage(root, console);
  shown.open(table);
}

export function hide() {
  shown.close();
  shown = null;
}

export const keys = [["/", "the first field", () => shown.inputs[0].node.select()]];
