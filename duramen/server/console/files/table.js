// One table: what it is, its partitions, versions and snapshots, and whether every tier has counted the same.
// What the server says of these is shown as it is, so what it says more later on is shown as well.

import { auditedNodes } from "./audited.js";
import { call, replies } from "./call.js";
import { factList, failure, listed, tableOf, when } from "./documents.js";
import { made, setText } from "./made.js";
import { address } from "./pages.js";
import { Poll } from "./poll.js";
import { Rows } from "./rows.js";
import { brief, clock, count, duration, plural, size } from "./words.js";

const EACH_MS = 3000;
const SELDOM = 5; // of so many answers, one asks for what changes rarely
const SLOTS = 16384;
const MINUTES = 5; // of the running proof
const MINUTES_MAX = 400; // partitions × minutes
const LINES_MAX = 60;

let shown = null;

class Section {
  constructor(title) {
    this.title = made("h2", "", title);
    this.body = made("div", "section-body", made("p", "note-line", "asking the server"));
    this.node = made("section", "card", this.title, this.body);
  }

  set(...nodes) {
    this.body.replaceChildren(...nodes);
  }
}

class TablePage {
  constructor(root, console, name) {
    this.console = console;
    this.name = name;
    this.turn = 0;
    this.heading = made("h2", "page-title", name);
    const links = [["log", "its log"], ["query", "get, scan and find"], ["key", "a key"]].map(([path, text]) =>
      Object.assign(made("a", "", text), { href: address(path, name) }),
    );
    this.note = made("p", "note-line");
    this.facts = new Section("the table");
    this.proof = new Section("the running proof: what every tier has counted");
    this.audited = new Section("exports and sessions: what audits found");
    this.audited.node.hidden = true;
    this.versions = new Section("versions");
    this.snapshots = new Section("snapshots");
    this.definition = new Section("what its keys and values are");
    this.definition.node.hidden = true;
    this.partitions = new Section("partitions");
    root.append(
      made("div", "bar", this.heading, made("nav", "links", ...links)),
      this.note,
      ...[this.facts, this.definition, this.proof, this.audited, this.versions, this.snapshots, this.partitions].map((each) => each.node),
    );
    this.#table();
    this.poll = new Poll((signal) => this.#ask(signal), (answer) => this.#take(answer), (error) => this.#fail(error), EACH_MS);
    this.poll.start();
  }

  close() {
    this.poll.stop();
    this.rows.close();
  }

  // What this user may not see is an error of its own, and hides nothing else.
  async #ask(signal) {
    const table = this.name;
    const seldom = this.turn % SELDOM === 0;
    this.turn += 1;
    // Whole minutes: a question that is asked again is the same one, also to the audit.
    const since = (Math.floor((this.console.view.facts?.now_ms ?? Date.now()) / 60_000) - MINUTES) * 60_000;
    const asked = {
      described: call("Tables/Describe", { name: table }, { signal }),
      partitions: call("Admin/Partitions", { table }, { signal }),
    };
    if (seldom) {
      const defined = ({ table: { id, defined: is } }) => (is ? call("Tables/Definition", { table_id: id }, { signal }) : null);
      asked.definition = asked.described.then(defined);
      asked.versions = call("Admin/Versions", { table }, { signal });
      asked.snapshots = call("Admin/Snapshots", { table }, { signal });
      asked.minutes = replies("Admin/AuditData", { table, since_ms: since }, { signal, messages: MINUTES_MAX, timeout_s: 10 });
    }
    // All are heard at once: one that fails while another is waited for would be an error of the page.
    const heard = Object.entries(asked).map(async ([name, answer]) => [name, await answer.then((value) => ({ value }), (error) => ({ error }))]);
    const found = Object.fromEntries(await Promise.all(heard));
    if (found.described.error) throw found.described.error;
    return found;
  }

  #take({ described, definition, partitions, versions, snapshots, minutes }) {
    this.note.hidden = true;
    this.heard = this.console.view.facts?.now_ms ?? Date.now();
    const { table, partitions: rows, ...others } = described.value;
    this.facts.set(this.#facts(table, others));
    this.#partitions(rows, partitions);
    if (partitions.value) this.#audited(auditedNodes(partitions.value.partitions));
    if (definition) {
      this.definition.node.hidden = definition.value === null;
      if (definition.value !== null) this.definition.set(...(definition.error ? [failure(definition.error)] : definedBy(definition.value)));
    }
    if (versions) {
      this.versions.set(versions.error ? failure(versions.error) : listOf(versions.value.versions, "It has one version: what its log says.", { without: ["table"] }));
      const links = { offset: (each) => Object.assign(made("a", "", count(each.offset)), { href: address("log", this.name, each.partition, each.offset) }) };
      this.snapshots.set(snapshots.error ? failure(snapshots.error) : listOf(snapshots.value.snapshots, "There is none.", { without: ["table"], links }));
      this.proof.set(...(minutes.error ? [failure(minutes.error)] : proofOf(minutes.value)));
    }
  }

  #audited(nodes) {
    this.audited.node.hidden = nodes === null;
    if (nodes !== null) this.audited.set(...nodes);
  }

  #fail(error) {
    this.note.hidden = false;
    this.note.replaceChildren(...failure(error).childNodes, this.heard ? ` What is shown is of ${clock(this.heard)}.` : "");
    this.note.className = "note-line bad";
    if (this.heard === undefined) for (const each of [this.facts, this.definition, this.proof, this.audited, this.versions, this.snapshots, this.partitions]) each.node.hidden = true;
  }

  #facts(table, others) {
    const { name: _, id, ...facts } = table;
    const { retention_ms: ms, retention_bytes: bytes, keeps, made_ms: madeMs, ...more } = others;
    const list = factList({ ...facts, over: facts.over || "no topic of others", ...more });
    if (madeMs) list.append(...listed([["made", when(madeMs)]]).children);
    const kept = [ms ? duration(ms / 1000) : "", bytes ? `${size(bytes)} of each partition` : ""].filter(Boolean).join(", ");
    list.append(...listed([["the log keeps", kept || "all records"], ["of its keys' past is kept", pastText(keeps)]]).children);
    const slots = table.partitioner === "slot" ? `${count(SLOTS)}, ${count(Math.floor(SLOTS / table.partitions))} or so for each partition` : "keys are not placed by slots";
    list.append(...listed([["slots", slots], ["id", made("code", "", id.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""))]]).children);
    return list;
  }

  #table() {
    this.table = made("table", "list");
    this.table.createTHead().append(made("tr", "", ...PARTITION.map((each) => made("th", each.number ? "number" : "", each.name))));
    this.rows = new Rows(this.table, {
      make: () => made("tr", "", ...PARTITION.map((each) => made("td", each.number ? "number" : ""))),
      fill: (row, each) => {
        row.className = each.state === "ready" || each.state === "elsewhere" ? "" : "warn";
        row.title = each.reason;
        PARTITION.forEach((column, at) => {
          const value = column.of(each, this.name);
          const cell = row.cells[at];
          if (typeof value === "string") setText(cell, value);
          else if (cell.textContent !== value.textContent) cell.replaceChildren(value);
        });
      },
      name: (each) => each.partition,
    });
  }

  #partitions(rows, answer) {
    const known = new Map((answer.value?.partitions ?? []).map((each) => [each.partition, each]));
    const all = rows.map((each) => ({ ...each, of: rows.length, replicas: known.get(each.partition)?.replicas ?? null }));
    setText(this.partitions.title, plural(all.length, "partition"));
    if (!this.table.isConnected) this.partitions.set(made("div", "wide", this.table));
    this.rows.show(all);
  }
}

// How much of what keys had before a table keeps, as a reply has it.
function pastText(keeps) {
  if (!keeps) return "nothing";
  if (keeps.versions) return `the newest ${plural(keeps.versions, "change")} of each key`;
  return keeps.age_ms ? `${duration(keeps.age_ms / 1000)}, by the log's time` : "everything";
}

const slotsOf = (each) => `${Math.ceil((each.partition * SLOTS) / each.of)} to ${Math.ceil(((each.partition + 1) * SLOTS) / each.of) - 1}`;

const PARTITION = [
  { name: "partition", of: (each, table) => Object.assign(made("a", "", String(each.partition)), { href: address("log", table, each.partition) }) },
  { name: "slots", of: slotsOf },
  { name: "earliest", of: (each) => count(each.earliest), number: true },
  { name: "latest", of: (each) => count(each.latest), number: true },
  { name: "keys", of: (each) => brief(each.keys), number: true },
  { name: "index", of: (each) => size(each.index_bytes), number: true },
  { name: "state", of: (each) => each.state },
  { name: "replicas: applied", of: (each) => replicasText(each) },
];

function replicasText(each) {
  if (each.replicas === null) return each.nodes.join(", ") || "–";
  return each.replicas
    .map((replica) => `${replica.node} ${replica.applied === each.latest ? "level" : count(replica.applied)}${replica.state === "ready" ? "" : ` ${replica.state}`}`)
    .join(", ");
}

// Which rows an index has, by the fields that decide it.
const rowsOf = ({ where }) => (where?.length ? `some, by ${where.map((each) => each.field).join(", ")}` : "all");

// A definition: how keys are made, what values are, and of rows the indexes and the schemas, the newest first.
function definedBy({ key, key_fields: fields, value, schemas, indexes, partial_indexes: partial, partition_by: by, ...others }) {
  const { keeps: _, index_changes: __, last_index: ___, first_indexes: ____, first_partial_indexes: _____, ...rest } = others;
  const { building = [], partial_building: partBuilding = [], ...more } = rest; // what is left is of a later server
  const state = (each) => ([...building, ...partBuilding].includes(each.number) ? "being built" : "in service");
  const typed = fields.map((each) => `${each.name} ${each.type}${each.optional ? " or null" : ""}`).join(", ");
  const placed = fields.slice(0, by || fields.length).map((each) => each.name).join(", ");
  const found = [factList({ keys: typed || key, ...(placed ? { "placed by": placed } : {}), values: value, ...more })];
  if (value === "row") found.push(listOf([...indexes, ...partial].map((each) => ({ index: each.name, fields: each.fields.join(", "), "of rows": rowsOf(each), state: state(each) })), "It has no index but its key."));
  for (const each of [...schemas].reverse()) {
    found.push(made("p", "note-line", `schema ${each.number}`), made("pre", "value-text", JSON.stringify(JSON.parse(each.avro), null, 1)));
  }
  return found;
}

function listOf(objects, none, options) {
  return objects.length ? tableOf(objects, options) : made("p", "note-line", none);
}

// What a tier has counted of a minute: where, how many offsets, and its verdict where that is another than "equal".
function countedText(each) {
  const where = [each.node, each.name].filter(Boolean).join(" ");
  return `${where} ${each.counted ? count(each.counted.offsets) : "–"}${each.verdict === "equal" ? "" : ` ${each.verdict}`}`;
}

function reasonText(each) {
  if (each.differs_from === undefined) return each.reason;
  return `${each.node}: offsets ${count(each.differs_from)} to ${count(each.differs_to)}`;
}

// The minutes of the running proof: what differs first, then the newest. Each list of counts is a tier, whatever its name.
export function proofOf({ replies: minutes, more }) {
  if (!minutes.length) return [made("p", "note-line", `Nothing was written in the last ${MINUTES} minutes.`)];
  const isTier = (value) => Array.isArray(value) && value.some((each) => each.verdict !== undefined);
  const tiers = [...new Set(minutes.flatMap((each) => Object.keys(each).filter((name) => isTier(each[name]))))];
  const differ = (each) => each.verdict === "different";
  const lines = [...minutes]
    .sort((one, other) => differ(other) - differ(one) || other.minute_ms - one.minute_ms || one.partition - other.partition)
    .slice(0, LINES_MAX)
    .map((each) => ({
      partition: each.partition,
      minute: when(each.minute_ms).slice(0, 16),
      written: each.written ? each.written.offsets : null,
      ...Object.fromEntries(tiers.map((tier) => [tier, each[tier].map(countedText).join(", ")])),
      offsets: each.written ? `${count(each.written.first)} to ${count(each.written.last)}` : "–",
      verdict: each.verdict,
      reason: [each.reason, ...tiers.flatMap((tier) => each[tier]).map(reasonText)].filter(Boolean).join("; "),
    }));
  const wrong = minutes.filter(differ).length;
  const equal = minutes.filter((each) => each.verdict === "equal").length;
  const word = wrong
    ? made("p", "bad", `${plural(wrong, "minute")} differ: records are missing, or not the same`)
    : made("p", equal === minutes.length ? "good" : "dim", `${plural(equal, "minute")} of ${count(minutes.length)} equal at every tier${more ? "; there are more" : ""}`);
  return [word, tableOf(lines)];
}

export function show(root, [name], console) {
  if (name === undefined) return console.go("#/tables");
  if (shown?.name === name) return undefined;
  if (shown !== null) hide();
  root.replaceChildren();
  shown = new TablePage(root, console, name);
  return undefined;
}

export function hide() {
  shown?.close();
  shown = null;
}

export const keys = [
  ["l", "the log of this table", () => shown && shown.console.go(address("log", shown.name))],
  ["q", "get, scan and find in this table", () => shown && shown.console.go(address("query", shown.name))],
];
