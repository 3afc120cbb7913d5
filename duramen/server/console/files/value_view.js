// One value as text, hex or JSON.

import { decoded, hexDump, jsonOf, linesOf } from "./bytes.js";
import { made } from "./made.js";
import { count, size } from "./words.js";

const SHOWN_MAX = 64 * 1024;

// `bytes`: its beginning. `whole`: how many bytes it has.
export function valueView(bytes, whole) {
  const isCut = whole > bytes.length;
  const shown = bytes.subarray(0, SHOWN_MAX);
  const json = isCut ? null : jsonOf(shown);
  const text = decoded(shown, isCut);
  const forms = [
    ["text", () => linesOf(text === null ? shown : new TextEncoder().encode(text))],
    ["hex", () => hexDump(shown)],
    ["JSON", () => json ?? (isCut ? "It is cut, so whether it is JSON is not known." : "It is no JSON.")],
  ];
  const body = made("pre", "value-text");
  const buttons = forms.map(([name, form]) => {
    const button = made("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => {
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
      body.textContent = form();
    });
    return button;
  });
  const first = json !== null ? 2 : text !== null ? 0 : 1;
  const cut = isCut ? `the first ${size(bytes.length)} of ${size(whole)}: the rest is not shown` : `${count(whole)} bytes`;
  const note = made("span", isCut ? "warn" : "dim", cut);
  const view = made("div", "value-view", made("div", "bar tight", made("div", "choice", ...buttons), note), body);
  buttons[first].click();
  return view;
}
