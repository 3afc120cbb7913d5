// A key as a person types it: text or base64:… where keys are bytes, and an input for each field where they have fields.

import { base64Of, typed } from "./bytes.js";
import { call } from "./call.js";
import { isJson, partsOf } from "./json_parts.js";
import { made } from "./made.js";
import { field, input } from "./table_field.js";

export const KEY_WORDS = "A key is text, or base64:… where its bytes are no text.";
export const FIELD_WORDS = "A key has a value for each field. Nothing is null, where the field may be that. Times are 2026-11-27T18:30:00Z, bytes are base64.";

const AS_JSON = ["int", "float", "bool", "any"]; // the other types are texts in JSON

// What a table's keys and values are; null: bytes, or this user may not see it.
export async function definitionOf(name, signal) {
  if (!name) return null;
  try {
    const { id, defined } = await call("Tables/Find", { name }, { signal });
    return defined ? await call("Tables/Definition", { table_id: id }, { signal }) : null;
  } catch {
    return null;
  }
}

// One value as JSON. Numbers stay as they were typed: a double would not hold all of them.
function fieldJson({ type, optional }, text) {
  if (optional && text === "") return "null";
  return AS_JSON.includes(type) && isJson(text) ? text.trim() : JSON.stringify(text);
}

export class KeyField {
  constructor() {
    this.node = made("div", "fields");
    this.key = input("key", 40, 800);
    this.define(null);
  }

  // `definition`: as `definitionOf` has it.
  define(definition) {
    this.typed = (definition?.key_fields ?? []).map((each) => {
      const node = input("key-part", 14, 800);
      node.dataset.field = each.name;
      return { ...each, node };
    });
    const parts = this.typed.map((each) => field(`${each.name} ${each.type}`, each.node, each.optional ? "empty: null" : ""));
    this.node.replaceChildren(...(parts.length ? parts : [field("key", this.key, "text, or base64:… for bytes that are no text")]));
  }

  get words() {
    return this.typed.length ? FIELD_WORDS : KEY_WORDS;
  }

  get first() {
    return this.typed[0]?.node ?? this.key;
  }

  get isEmpty() {
    return this.typed.length ? this.typed.every((each) => each.node.value === "") : !this.key.value;
  }

  // What of it is in an address of the page; `fields`: it is JSON of the fields.
  get place() {
    return this.typed.length ? { fields: this.json } : { key: this.key.value };
  }

  get json() {
    return `[${this.typed.map((each) => fieldJson(each, each.node.value)).join(",")}]`;
  }

  // What is asked for. Raises `Error` with what is wrong.
  get request() {
    return this.typed.length ? { key_fields: this.json } : requestOf(this.key.value);
  }

  // Show a key's fields: a text of JSON, of which each value is shown as it is typed. What is none changes nothing.
  fill(text) {
    const parts = partsOf(text);
    if (parts === null || parts.length !== this.typed.length) return;
    this.typed.forEach((each, at) => {
      const value = JSON.parse(parts[at]);
      each.node.value = value === null ? "" : typeof value === "string" ? value : parts[at];
    });
  }
}

export function requestOf(text) {
  const key = typed(text);
  if (key === null) throw new Error("What follows base64: is no base64.");
  if (!key.length) throw new Error("A key has one byte at least.");
  return { key: base64Of(key) };
}
