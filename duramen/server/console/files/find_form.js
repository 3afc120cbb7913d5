// A find as a person writes it: the conditions, which are lines of `field = value` or one object of JSON, and the order.

import { isJson } from "./json_parts.js";
import { made } from "./made.js";
import { field, input } from "./table_field.js";

export const FIND_WORDS =
  'A line for each field: tailnum = N14228. A list is a range without its end, dep_delay = [60, 90]; null in it is an open end, and alone a value that is not there. A text that is JSON is in quotes: gate = "5". Or all of it as one object of JSON. No line is every row.';

// The conditions as an object of JSON. Numbers stay as they were typed: a double would not hold all of them. A field that
// is named twice is the server's to refuse. Raises `Error` with what is wrong.
export function whereOf(text) {
  if (text.trim().startsWith("{")) return text;
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  const parts = lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`This line is no field = value: ${line}`);
    const value = line.slice(at + 1).trim();
    return `${JSON.stringify(line.slice(0, at).trim())}:${isJson(value) ? value : JSON.stringify(value)}`;
  });
  return `{${parts.join(",")}}`;
}

export class FindForm {
  constructor() {
    this.where = made("textarea", "where");
    this.where.rows = 2;
    this.where.cols = 44;
    this.where.maxLength = 8000;
    this.where.spellcheck = false;
    this.where.placeholder = "field = value";
    this.order = input("order", 20, 800);
    this.fields = [field("where", this.where), field("order", this.order, "fields, with - in front of each to go down; none: as the index has them")];
  }

  // What is asked for. Raises as `whereOf`.
  get request() {
    return { where: whereOf(this.where.value), order: this.order.value.split(",").map((each) => each.trim()).filter(Boolean) };
  }
}
