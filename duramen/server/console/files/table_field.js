// Fields of the forms of pages: a table by its name, with those there are to choose from; and labels.

import { call } from "./call.js";
import { made } from "./made.js";

export function field(name, input, hint = "") {
  if (hint) input.title = hint;
  return made("label", "field", made("span", "", name), input);
}

export function input(className, size, maxLength = 1000) {
  const node = made("input", className);
  node.type = "text";
  node.size = size;
  node.maxLength = maxLength;
  node.autocomplete = "off";
  node.spellcheck = false;
  return node;
}

export function button(words, act, title = "") {
  const node = made("button", "", words);
  node.type = act === null ? "submit" : "button";
  if (act !== null) node.addEventListener("click", act);
  if (title) node.title = title;
  return node;
}

// An input for a table. The list is asked for once, when the field is made; without it, a name is typed.
export function tableField() {
  const node = input("table-name", 16, 300);
  const names = made("datalist");
  names.id = "known-tables";
  node.setAttribute("list", names.id);
  call("Tables/List")
    .then((reply) => {
      names.replaceChildren(...reply.tables.map((table) => Object.assign(made("option"), { value: table.name })));
      if (node.value || reply.tables.length !== 1) return;
      node.value = reply.tables[0].name;
      node.dispatchEvent(new Event("change"));
    })
    .catch(() => {});
  return { node, label: made("label", "field", made("span", "", "table"), node, names) };
}
