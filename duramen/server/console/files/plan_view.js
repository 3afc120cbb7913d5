// A plan as it is shown before somebody says yes: what would be done, by whom, how many bytes, how long.

import { made } from "./made.js";
import { count, duration, plural, size } from "./words.js";

const STEPS_MAX = 200;

// The node of a plan. `destroys`: what is lost by it; empty: nothing is.
export function planView(plan, destroys = "") {
  const node = made("div", "plan");
  const begins = plan.steps.length > 0 || plan.kind !== "";
  const cost = [plural(plan.steps.length, "step")];
  if (plan.bytes) cost.push(`${size(plan.bytes)} to copy`);
  if (plan.steps.length) cost.push(`some ${duration(plan.seconds)} at ${size(plan.rate_bytes_s)}/s a node`);
  if (plan.version !== undefined) cost.push(`made at version ${count(plan.version)} of the catalog`);
  node.append(made("h3", "plan-name", `${plan.kind} ${plan.subject}`));
  node.append(made("p", "plan-cost", begins ? cost.join(", ") : "nothing has to be done"));
  if (destroys) node.append(made("p", "bad plan-destroys", `This destroys: ${destroys}.`));
  for (const note of plan.notes) node.append(made("p", "warn plan-note", note));
  if (!plan.steps.length) return node;
  const table = made("table", "list plan-steps");
  table.createTHead().append(made("tr", "", ...["what", "partition", "node", "bytes", ""].map((name) => made("th", name === "bytes" ? "number" : "", name))));
  table.createTBody().append(
    ...plan.steps.slice(0, STEPS_MAX).map((step) =>
      made(
        "tr", "",
        made("td", "", step.action),
        made("td", "", `${step.table}/${step.partition}`),
        made("td", "", step.source ? `${step.source} → ${step.node}` : step.node),
        made("td", "number", step.bytes ? size(step.bytes) : "–"),
        made("td", "what", step.note),
      ),
    ),
  );
  node.append(made("div", "wide", table));
  if (plan.steps.length > STEPS_MAX) node.append(made("p", "dim", `and ${count(plan.steps.length - STEPS_MAX)} more`));
  return node;
}
