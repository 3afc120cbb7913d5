// What changed: the commands of the catalog's log, the newest first.

import { auditOf, changeText, commands, isReport, senders } from "./changes_text.js";
import { failure, when } from "./documents.js";
import { made, setText } from "./made.js";
import { address } from "./pages.js";
import { Poll } from "./poll.js";
import { button, field, input } from "./table_field.js";
import { whoAmI } from "./who.js";
import { plural } from "./words.js";

const EACH_MS = 5000;
const ROWS_MAX = 2000; // of a tab that is open for a day
const PAGE = 200;

class ChangesPage {
  constructor(root) {
    this.find = input("find-changes", 16, 200);
    this.find.type = "search";
    this.find.addEventListener("input", () => this.draw());
    this.reports = input("reports", 1);
    this.reports.type = "checkbox";
    this.reports.addEventListener("change", () => this.draw());
    this.title = made("h2", "page-title", "what changed");
    this.note = made("p", "note-line", "asking the server");
    this.list = made("table", "list changes");
    this.list.createTHead().append(made("tr", "", ...["version", "time", "who", "what", ""].map((name) => made("th", "", name))));
    this.body = this.list.createTBody();
    this.older = button("earlier ones", () => this.#older());
    this.older.hidden = true;
    root.append(
      made("div", "bar", this.title, field("reports of nodes too", this.reports), field("find", this.find)),
      this.note, made("div", "wide", this.list), this.older,
    );
    this.known = new Map(); // offset → command
    this.rows = null;
    this.poll = new Poll((signal) => this.#ask(signal), (answer) => this.#take(answer), (error) => this.#fail(error), EACH_MS);
    this.poll.start();
  }

  close() {
    this.poll.stop();
  }

  async #ask(signal) {
    const answer = await commands({ limit: PAGE }, signal);
    const times = answer.commands.map((each) => each.time_ms);
    this.who ??= await whoAmI(signal);
    const audited = this.who.user !== "" && times.length > 0; // without users there is no audit
    const rows = audited ? await auditOf(Math.min(...times), Math.max(...times), signal) : null;
    return { answer, rows, first: this.known.size === 0 };
  }

  #take({ answer, rows, first }) {
    if (first) this.older.hidden = !answer.more;
    this.rows = rows === null ? this.rows : merged(this.rows ?? [], rows);
    this.#add(answer.commands);
  }

  #add(found) {
    for (const each of found) this.known.set(each.offset, each);
    const offsets = [...this.known.keys()].sort((one, other) => other - one);
    for (const offset of offsets.slice(ROWS_MAX)) this.known.delete(offset);
    this.error = null;
    this.draw();
  }

  async #older() {
    const first = Math.min(...this.known.keys());
    this.older.disabled = true;
    try {
      const answer = await commands({ limit: PAGE, before: first });
      this.older.hidden = !answer.more || this.known.size + answer.commands.length > ROWS_MAX;
      const times = answer.commands.map((each) => each.time_ms);
      const rows = times.length ? await auditOf(Math.min(...times), Math.max(...times)) : null;
      if (rows !== null) this.rows = merged(this.rows ?? [], rows);
      this.#add(answer.commands);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.older.disabled = false;
    }
  }

  #fail(error) {
    this.error = error;
    this.draw();
  }

  draw() {
    const text = this.find.value.trim().toLowerCase();
    const every = [...this.known.values()].sort((one, other) => other.offset - one.offset);
    const wanted = every.filter((each) => this.reports.checked || !isReport(each));
    const found = wanted.filter((each) => !text || `${changeText(each)} ${senders(each, this.rows)}`.toLowerCase().includes(text));
    const hidden = every.length - wanted.length;
    if (this.error) {
      this.note.replaceChildren(...failure(this.error).childNodes);
      this.note.className = this.error.code === "permission_denied" ? "note-line" : "note-line bad";
    } else {
      const who = this.rows === null ? " Who sent them is not shown: it takes users, and a grant to read _duramen_audit." : "";
      setText(this.note, `${plural(found.length, "change")}${hidden ? `, ${plural(hidden, "report")} of nodes left out` : ""}.${who}`);
      this.note.className = "note-line";
    }
    this.body.replaceChildren(...found.map((each) => this.#row(each)));
  }

  #row(each) {
    const job = each.job !== undefined && each.job !== null;
    const link = made("a", "", job ? `job ${each.job}` : "");
    if (job) link.href = address("jobs", String(each.job));
    const row = made(
      "tr", each.rejected ? "dim" : "",
      made("td", "", String(each.offset)),
      made("td", "", when(each.time_ms).slice(0, 19)),
      made("td", "", senders(each, this.rows)),
      made("td", "what", changeText(each), each.rejected ? made("span", "warn", ` — refused: ${each.rejected}`) : ""),
      made("td", "", job ? link : ""),
    );
    row.dataset.offset = each.offset;
    return row;
  }
}

// Rows of the audit by their place, each once; the newest.
function merged(known, found) {
  const rows = new Map([...known, ...found].map((row) => [`${row.time_ms} ${row.server} ${row.action} ${row.user} ${row.offset}`, row]));
  return [...rows.values()].slice(-ROWS_MAX);
}

let shown = null;

export function show(root) {
  shown ??= new ChangesPage(root);
}

export function hide() {
  shown.close();
  shown = null;
}

export const keys = [["/", "find changes", () => shown.find.focus()]];
