// The newest rows of the audit, by user, action, table, result and time. Who may read _duramen_audit sees them.

import { visible } from "./bytes.js";
import { call } from "./call.js";
import { parsed } from "./changes_text.js";
import { failure, when } from "./documents.js";
import { made, setText } from "./made.js";
import { Poll } from "./poll.js";
import { button, field, input } from "./table_field.js";
import { count, plural } from "./words.js";

const EACH_MS = 5000;
const SHOWN_MAX = 200;
const PAGE = 500;
const PAGES_MAX = 6; // rows that are looked through for one answer: 3,000

const SPANS = [["15 min", 900], ["1 h", 3600], ["24 h", 86400], ["7 days", 604800], ["all", 0]];
const REFUSALS = new Set(["refused", "ended"]);

const key = (ms) => btoa(String(Math.max(0, Math.round(ms))).padStart(13, "0"));

class AuditPage {
  constructor(root) {
    this.user = input("audit-user", 10, 200);
    this.action = input("audit-action", 12, 200);
    this.table = input("audit-table", 12, 200);
    this.refused = input("audit-refused", 1);
    this.refused.type = "checkbox";
    this.span = SPANS[1];
    this.spans = SPANS.map((span) => {
      const choice = button(span[0], () => this.choose(span));
      choice.setAttribute("aria-pressed", String(span === this.span));
      return choice;
    });
    const form = made("form", "ask", field("user", this.user), field("action", this.action), field("table", this.table),
      field("refused only", this.refused), made("div", "choice", ...this.spans), button("look", null));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#fromTheNewest();
    });
    this.refused.addEventListener("change", () => this.#fromTheNewest());
    this.befores = []; // where each page begins that is older than the newest one: a key, as it is asked for
    this.next = ""; // where the page behind the one that is shown begins; empty: there is none
    this.older = button("older", () => this.turn(1));
    this.newer = button("newer", () => this.turn(-1));
    this.turns = made("div", "choice turns", this.newer, this.older);
    this.turns.hidden = true;
    this.title = made("h2", "page-title", "audit");
    this.note = made("p", "note-line", "asking the server");
    this.list = made("table", "list audit-rows");
    const heads = ["time", "user", "from", "what", "result", "table", "key", "times", "detail"];
    this.list.createTHead().append(made("tr", "", ...heads.map((name) => made("th", "", name))));
    this.body = this.list.createTBody();
    root.append(this.title, form, this.note, made("div", "wide", this.list), this.turns);
    this.poll = new Poll((signal) => this.#ask(signal), (answer) => this.#take(answer), (error) => this.#fail(error), EACH_MS);
    this.poll.start();
  }

  close() {
    this.poll.stop();
  }

  choose(span) {
    this.span = span;
    this.spans.forEach((choice, at) => choice.setAttribute("aria-pressed", String(SPANS[at] === span)));
    this.#fromTheNewest();
  }

  // To the page of older rows (1), or back to the newer one (-1).
  turn(by) {
    if (by > 0 ? !this.next : !this.befores.length) return;
    if (by > 0) this.befores.push(this.next);
    else this.befores.pop();
    this.next = "";
    this.poll.now();
  }

  #fromTheNewest() {
    this.befores = [];
    this.next = "";
    this.poll.now();
  }

  #wants(row) {
    const asked = [[this.user, row.user], [this.table, row.table]];
    if (!asked.every(([node, value]) => !node.value.trim() || value === node.value.trim())) return false;
    const action = this.action.value.trim().toLowerCase();
    if (action && !`${row.action} ${row.kind}`.toLowerCase().includes(action)) return false;
    return !this.refused.checked || REFUSALS.has(row.result);
  }

  // Backwards from the newest, or from where an older page begins, until there are enough. What is shown ends at a row's
  // key, and the next page begins behind it: rows that come meanwhile move nothing.
  async #ask(signal) {
    const start = this.span[1] ? key(Date.now() - this.span[1] * 1000) : "";
    const before = this.befores.at(-1) ?? "";
    let end = before;
    let looked = 0;
    let strange = 0;
    const rows = [];
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const request = { table: "_duramen_audit", start, end, limit: PAGE, value_bytes_max: 4096, reverse: true };
      const answer = await call("Console/Scan", request, { signal, timeout_s: 10 });
      for (const entry of answer.entries) {
        const row = parsed(entry.value);
        looked += 1;
        if (row === null) strange += 1;
        else if (this.#wants(row)) rows.push(row);
        if (rows.length === SHOWN_MAX) return { rows, looked, strange, before, next: entry.key };
      }
      if (!answer.more) return { rows, looked, strange, before, next: "" };
      end = answer.end;
    }
    return { rows, looked, strange, before, next: end };
  }

  #take({ rows, looked, strange, before, next }) {
    if (before !== (this.befores.at(-1) ?? "")) return; // of a page that was left meanwhile
    this.next = next;
    this.older.disabled = !next;
    this.newer.disabled = !before;
    this.turns.hidden = !next && !before;
    const left = strange ? `, ${plural(strange, "row")} of another version left out` : "";
    const cut = next ? "; there are older ones" : "";
    const page = before ? `, page ${this.befores.length + 1}` : "";
    setText(this.note, `${plural(rows.length, "row")} of ${count(looked)}${page}${left}${cut}.`);
    this.note.className = "note-line";
    this.body.replaceChildren(...rows.map(auditRow));
  }

  #fail(error) {
    if (error.code === "table_not_found") {
      setText(this.note, "There is no audit yet: it begins with the first user.");
      this.note.className = "note-line";
    } else if (error.code === "permission_denied") {
      setText(this.note, "Not shown to you: it takes the grant read _duramen_audit.");
      this.note.className = "note-line";
    } else {
      this.note.replaceChildren(...failure(error).childNodes);
      this.note.className = "note-line bad";
    }
    if (error.code !== "disconnected") this.body.replaceChildren();
  }
}

function auditRow(row) {
  const name = row.user || "(nobody)";
  const claimed = row.user && row.proof === "nothing" ? " (claimed)" : "";
  const version = row.offset >= 0 ? ` [catalog ${row.offset}]` : "";
  return made(
    "tr", "",
    made("td", "", when(row.time_ms).slice(0, 19)),
    made("td", "", name + claimed),
    made("td", "", row.address),
    made("td", "", row.kind === "login" || row.kind === "lost" ? row.kind : row.action),
    made("td", REFUSALS.has(row.result) ? "bad" : row.result === "failed" ? "warn" : "", row.result),
    made("td", "", row.table),
    made("td", "", row.key_text ? visible(row.key_text) : row.key),
    made("td", "number", count(row.count)),
    made("td", "what", row.detail + version),
  );
}

let shown = null;

export function show(root) {
  shown ??= new AuditPage(root);
}

export function hide() {
  shown.close();
  shown = null;
}

export const keys = [
  ["/", "whose rows", () => shown.user.focus()],
  ["p", "older rows", () => shown.turn(1)],
  ["n", "newer rows", () => shown.turn(-1)],
  ["s", "a longer or shorter time", () => shown.choose(SPANS[(SPANS.indexOf(shown.span) + 1) % SPANS.length])],
];
