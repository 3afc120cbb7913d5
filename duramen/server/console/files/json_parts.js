// Texts of JSON taken apart without reading their numbers: a double would not hold all of them. No DOM in here.

export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// The elements of a list, each as its own text; null: it is no list.
export function partsOf(text) {
  return isJson(text) && text.trim().startsWith("[") ? split(text.trim().slice(1, -1)) : null;
}

// The members of an object: [name, text of the value]; null: it is no object.
export function membersOf(text) {
  if (!isJson(text) || !text.trim().startsWith("{")) return null;
  return split(text.trim().slice(1, -1)).map((part) => {
    const end = endOfString(part, 0);
    return [JSON.parse(part.slice(0, end)), part.slice(end).trim().slice(1).trim()];
  });
}

// The place behind a string that begins at `at`.
function endOfString(text, at) {
  let end = at + 1;
  while (text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
  return end + 1;
}

// At the commas that are in nothing else.
function split(inner) {
  const parts = [];
  let [begin, depth, at] = [0, 0, 0];
  while (at < inner.length) {
    const letter = inner[at];
    if (letter === '"') {
      at = endOfString(inner, at);
      continue;
    }
    if (letter === "[" || letter === "{") depth += 1;
    if (letter === "]" || letter === "}") depth -= 1;
    if (letter === "," && depth === 0) {
      parts.push(inner.slice(begin, at).trim());
      begin = at + 1;
    }
    at += 1;
  }
  const last = inner.slice(begin).trim();
  return last ? [...parts, last] : parts;
}
