// Keys and values: bytes, which a reply has in base64, as a person reads and writes them. No DOM in here.

const BASE64 = "base64:";
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

export function base64Of(bytes) {
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters);
}

// As `duramen admin … --json` has them: UTF-8 as it is, and anything else, and text that begins so itself, as base64:….
export function textOf(bytes) {
  const text = decoded(bytes);
  return text === null || text.startsWith(BASE64) ? BASE64 + base64Of(bytes) : text;
}

// What was typed, as bytes; null: it is no base64.
export function typed(text) {
  if (!text.startsWith(BASE64)) return new TextEncoder().encode(text);
  try {
    return bytesOf(text.slice(BASE64.length));
  } catch {
    return null;
  }
}

// The text of bytes; null: they are none. Of a value that was cut, its last character may be, too.
export function decoded(bytes, isCut = false) {
  for (let less = 0; less <= (isCut ? 3 : 0) && less <= bytes.length; less += 1) {
    try {
      return strict.decode(bytes.subarray(0, bytes.length - less));
    } catch {
      // one character less
    }
  }
  return null;
}

// One line of a table: text with its control characters shown, or hex.
export function brief(bytes, isCut = false, most = 120) {
  const text = decoded(bytes.length > 4 * most ? bytes.subarray(0, 4 * most) : bytes, isCut || bytes.length > 4 * most);
  const line = text === null ? hexOf(bytes.subarray(0, most / 3)) : visible(text);
  return line.length > most || isCut ? `${line.slice(0, most)}…` : line;
}

// One line for a key: its fields, where it has some, which a reply has as JSON.
export function keyLine(key, fields, most = 120) {
  return fields ? brief(new TextEncoder().encode(fields), false, most) : brief(key, false, most);
}

// Control characters, and those that turn the direction of writing, as their codes.
export function visible(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (each) =>
    `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const hexOf = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");

// Sixteen bytes a line: place, hex, letters.
export function hexDump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = bytes.subarray(at, at + 16);
    const letters = [...row].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hexOf(row).padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}

// Several lines of text; what is no text is shown as a replacement character.
export const linesOf = (bytes) => lenient.decode(bytes).split(/([\n\t])/).map((part, at) => (at % 2 ? part : visible(part))).join("");

// Indented JSON; null: the bytes are none.
export function jsonOf(bytes) {
  const text = decoded(bytes);
  if (text === null || !/^\s*[[{"]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}
