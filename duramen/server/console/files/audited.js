// What was found of a partition's exports and of clients' sessions: by a person's audit, and kept by the servers.

import { tableOf, when } from "./documents.js";
import { made } from "./made.js";
import { count, plural } from "./words.js";

const WORDS = { export: "exported", session: "acknowledged" };
const PARTS_MAX = 100;

const word = (tier) => WORDS[tier] ?? tier;

// A row of the events' column `audits`.
const named = ([tier, rows, checkedMs, verdict = "equal", why = ""]) => ({ tier, rows, verdict, checkedMs, why });

export const auditsOf = (each) => (each.audits ?? []).map(named);
export const isDifferent = (each) => auditsOf(each).some((audit) => audit.verdict === "different");

// `exported 81,204, acknowledged 70`: what belongs behind "equal".
export function countsText(each) {
  return auditsOf(each)
    .map(({ tier, rows, verdict }) => `${word(tier)} ${count(rows)}${verdict === "equal" ? "" : ` (${verdict})`}`)
    .join(", ");
}

// Names and texts of a list of facts, one for each audit.
export function auditFacts(each) {
  return auditsOf(each).map(({ tier, rows, verdict, checkedMs, why }) => [
    word(tier),
    `${count(rows)}, ${verdict}, checked ${when(checkedMs).slice(0, 16)}${why ? `: ${why}` : ""}`,
  ]);
}

// The audits of a table's partitions, as `Admin/Partitions` has them: what differs first. Null: there are none.
export function auditedNodes(partitions) {
  const all = partitions.flatMap((each) => (each.audits ?? []).map((audit) => ({ partition: each.partition, ...audit })));
  if (!all.length) return null;
  const differ = (each) => each.verdict === "different";
  const lines = [...all]
    .sort((one, other) => differ(other) - differ(one) || one.partition - other.partition)
    .slice(0, PARTS_MAX)
    .map(({ partition, tier, name, rows, until, verdict, reason, checked_ms: checkedMs }) => ({
      partition, what: word(tier), rows, up_to_offset: until, verdict, checked: when(checkedMs).slice(0, 16), of: name, reason,
    }));
  const wrong = all.filter(differ).length;
  const text = wrong ? `${plural(wrong, "audit")} found a difference` : `${plural(all.length, "audit")} found no difference`;
  return [made("p", wrong ? "bad" : "good", text), tableOf(lines)];
}
