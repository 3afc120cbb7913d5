// Nodes of the document. Everything is set as text: nothing that a server says becomes HTML.

export const byId = (id) => document.getElementById(id);

// A node with a class and what it holds: texts and nodes.
export function made(name, className = "", ...inside) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...inside);
  return node;
}

// A text whose commands, in backquotes, are set as such.
export function withCommands(text) {
  return text.split("`").map((part, at) => (at % 2 ? made("code", "", part) : part));
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
