// Commands of the catalog's log as people read them, and who sent them, as far as the audit says.

import { call } from "./call.js";
import { UNKNOWN } from "./words.js";

const AUDIT_ROWS = 500;
const LEAD_MS = 60_000; // a call's row is of when it came

// What a node reports while it works: of interest to who looks at a job, not to who asks what changed.
const REPORTS = new Set(["task-ready", "task-done", "add-snapshot", "forget-snapshots"]);

export const isReport = (command) => REPORTS.has(command.command);

// One line. `node` of a change is who it is about.
export function changeText(command) {
  const about = [command.table, command.user, command.node].filter(Boolean).join(" ");
  const words = command.command.replaceAll("-", " ");
  const job = command.job === undefined || command.job === null ? "" : words.endsWith("job") ? command.job : `job ${command.job}`;
  return [words, job, about, command.detail].filter((each) => each !== "").join(" ");
}

// The last commands, and whether there are more. `before`: an offset; undefined: the newest.
export async function commands({ limit = 100, before, since_ms = 0 } = {}, signal) {
  const request = { limit, since_ms };
  if (before !== undefined) request.before = before;
  return call("Admin/Changes", request, { signal, timeout_s: 10 });
}

// Audit rows of changes between two times, for who may read the audit; null: not shown, or there is none.
export async function auditOf(fromMs, untilMs, signal) {
  const key = (ms) => btoa(String(Math.max(0, Math.round(ms))).padStart(13, "0"));
  const request = { table: "_duramen_audit", start: key(fromMs - LEAD_MS), end: key(untilMs + LEAD_MS), limit: AUDIT_ROWS, value_bytes_max: 4096, reverse: true };
  try {
    const page = await call("Console/Scan", request, { signal });
    return page.entries.map((entry) => parsed(entry.value)).filter((row) => row !== null);
  } catch {
    return null;
  }
}

// A row of the audit from base64; null: it is none that this page knows.
export function parsed(text) {
  try {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const row = JSON.parse(new TextDecoder().decode(bytes));
    return row.v === 1 ? row : null;
  } catch {
    return null;
  }
}

// Who sent a command: whose call changed something between its version and its offset. Several may have at once.
export function senders(command, rows) {
  if (command.table.startsWith("_duramen") || isReport(command)) return "a server";
  if (rows === null) return UNKNOWN;
  const found = rows.filter((row) => row.offset >= command.offset && row.version < command.offset && row.result === "done");
  const names = [...new Set(found.map((row) => row.user || "nobody"))];
  return names.length ? names.join(" or ") : command.node ? "a server" : UNKNOWN;
}
