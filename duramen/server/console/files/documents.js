// A reply as it is: what has no page of its own, fields and kinds that come later included, is shown by its names.

import { made } from "./made.js";
import { UNKNOWN, count, duration, size } from "./words.js";

const WORDS = { ms: "", bytes: "", s: "" };

// A field's name as words, without the unit that its value shows.
export function words(name) {
  return name
    .split("_")
    .filter((part, at, all) => at === 0 || at < all.length - 1 || WORDS[part] === undefined)
    .join(" ");
}

// A value by its name's last word, which is its unit: numbers, times, sizes, lists, and texts.
export function valueText(name, value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return numberText(name, value);
  if (Array.isArray(value)) return value.length ? value.map((each) => valueText("", each)).join(", ") : "none";
  if (typeof value === "object") {
    return Object.entries(value).map(([key, each]) => `${words(key)} ${valueText(key, each)}`).join(", ");
  }
  return value === "" ? "–" : String(value);
}

function numberText(name, value) {
  if (/(^|_)bytes$|^disk_/.test(name)) return size(value);
  if (/_ms$/.test(name)) return Math.abs(value) > 1e11 ? when(value) : value ? duration(value / 1000) : "–";
  if (/_s$/.test(name)) return duration(value);
  return count(value);
}

// A time of the server, in the browser's zone.
export function when(ms) {
  const date = new Date(ms);
  const day = date.toLocaleDateString("en-CA");
  return `${day} ${date.toLocaleTimeString("en-GB")}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

const isTable = (value) => Array.isArray(value) && value.length > 0 && typeof value[0] === "object";

// The fields that are no tables, as a list. `without`: those that are shown elsewhere.
export function factList(document, without = []) {
  const rows = Object.entries(document).filter(([name, value]) => !without.includes(name) && !isTable(value));
  return listed(rows.map(([name, value]) => [words(name), valueText(name, value)]));
}

// Names and what belongs to them: texts and nodes.
export function listed(rows) {
  return made("dl", "facts", ...rows.map(([name, ...value]) => made("div", "", made("dt", "", name), made("dd", "", ...value))));
}

// Objects as a table whose columns are their fields. `links`: for a column, what makes a node of an object.
export function tableOf(objects, { without = [], links = {}, first = [] } = {}) {
  const names = [...first, ...new Set(objects.flatMap((each) => Object.keys(each)))].filter(
    (name, at, all) => all.indexOf(name) === at && !without.includes(name),
  );
  const numeric = (name) => objects.every((each) => typeof (each[name] ?? 0) === "number");
  const table = made("table", "list");
  table.createTHead().append(made("tr", "", ...names.map((name) => made("th", numeric(name) ? "number" : "", words(name)))));
  table.createTBody().append(
    ...objects.map((each) =>
      made("tr", "", ...names.map((name) => made("td", numeric(name) ? "number" : "", links[name]?.(each) ?? valueText(name, each[name])))),
    ),
  );
  return made("div", "wide", table);
}

// Why something is not shown, in place of it.
export function failure(error, refused = "Not shown to you: ") {
  const isRefused = error.code === "permission_denied";
  return made("p", isRefused ? "note-line" : "note-line bad", isRefused ? refused + error.message : error.message);
}
