// What is known of a key beyond its bytes: its row as fields, and what it had before.

import { brief, bytesOf, visible } from "./bytes.js";
import { failure, when } from "./documents.js";
import { membersOf } from "./json_parts.js";
import { made } from "./made.js";
import { address } from "./pages.js";
import { UNKNOWN, count } from "./words.js";

const FIELD_MAX = 2000; // letters of a value

// A row, which is an object of JSON, as a line for each field.
export function rowNodes(text) {
  const table = made("table", "list row-fields");
  table.createTHead().append(made("tr", "", made("th", "", "field"), made("th", "", "value")));
  const lines = (membersOf(text) ?? []).map(([name, value]) => made("tr", "", made("td", "", visible(name)), made("td", "", shownValue(value))));
  table.createTBody().append(...lines);
  return [made("div", "wide", table)];
}

// Numbers, lists and records are shown as JSON has them, with all of their digits.
function shownValue(json) {
  if (json === "null") return made("span", "dim", "null");
  const text = json.startsWith('"') ? JSON.parse(json) : json;
  return visible(text.length > FIELD_MAX ? `${text.slice(0, FIELD_MAX)}…` : text);
}

// As `keeps` of a reply has it: 30d, 100, all.
export const keptText = (keeps) => (keeps === "all" ? "everything" : /^[0-9]+$/.test(keeps) ? `its newest ${keeps} changes` : `the last ${keeps}`);

// The newest versions of a key, the newest first; nothing where its table keeps none. `past`: what was asked for them.
export function pastNodes(table, found, past) {
  if (past === null || past === undefined) return [];
  const title = made("h2", "", "what it had before");
  if (past.error) return [made("section", "card", title, failure(past.error))];
  const { versions, partition, keeps } = past.value;
  if (!versions.length) return [made("section", "card", title, made("p", "note-line", "It has no version that is kept."))];
  const list = made("table", "list versions");
  list.createTHead().append(made("tr", "", ...["offset", "time", "value", "expires"].map((each) => made("th", "", each))));
  list.createTBody().append(
    ...versions.map((each) => {
      const link = Object.assign(made("a", "", count(each.offset)), { href: address("log", table, partition, each.offset) });
      const bytes = bytesOf(each.value);
      const value = each.deleted ? made("span", "dim", "deleted") : brief(bytes, each.value_bytes > bytes.length, 160);
      const cells = [link, each.time_ms ? when(each.time_ms) : UNKNOWN, value, each.expires_at_ms ? when(each.expires_at_ms) : "–"];
      return made("tr", "", ...cells.map((cell) => made("td", "", cell)));
    }),
  );
  const note = `The newest ${versions.length}, the newest first. The table keeps ${keptText(keeps)}; the last one may be older, and is what the key had then.`;
  return [made("section", "card", title, made("p", "note-line", note), made("div", "wide", list))];
}
