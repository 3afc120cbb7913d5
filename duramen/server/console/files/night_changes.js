// What changed, beside the graphs: the last commands of the catalog, and a mark on each graph at their times.

import { changeText, commands, isReport } from "./changes_text.js";
import { byId, made, setText } from "./made.js";
import { clock, date } from "./words.js";

const EACH_MS = 10_000;
const LINES = 6;
const COMMANDS = 200;
const DENIED_EACH_MS = 60_000;

export class NightChanges {
  // `spanS()`: how far the graphs reach back. `mark(changes)`: puts the marks on them.
  constructor(spanS, mark) {
    this.spanS = spanS;
    this.mark = mark;
    this.askedAt = -Infinity;
    this.each = EACH_MS;
    this.asking = false;
  }

  // Called often. `facts`: of the server; a log server has no catalog to ask about.
  async refresh(facts) {
    const now = performance.now();
    if (this.asking || facts === null || facts.role === "log" || now - this.askedAt < this.each) return;
    this.asking = true;
    this.askedAt = now;
    try {
      const answer = await commands({ limit: COMMANDS, since_ms: Math.round(facts.now_ms - 1000 * this.spanS()) });
      this.each = EACH_MS;
      this.show(answer.commands.filter((each) => !isReport(each) && !each.rejected), answer.more);
    } catch (error) {
      // Who may not see the catalog's changes has none here; that the server does not answer the page says elsewhere.
      if (error.code === "permission_denied" || error.code === "unauthenticated") {
        this.each = DENIED_EACH_MS;
        byId("changed").hidden = true;
        this.mark([]);
      }
    } finally {
      this.asking = false;
    }
  }

  forget() {
    this.askedAt = -Infinity;
  }

  show(changes, more) {
    this.mark(changes);
    byId("changed").hidden = false;
    const span = this.spanS() > 86_400 ? "week" : "hour";
    const count = `${changes.length}${more && changes.length === COMMANDS ? "+" : ""}`;
    setText(byId("changed-title"), changes.length ? `what changed in the last ${span}: ${count}` : `nothing changed in the last ${span}`);
    const newest = changes.slice(-LINES).reverse();
    byId("changed-list").replaceChildren(
      ...newest.map((each) => {
        const time = made("span", "dim", span === "hour" ? clock(each.time_ms) : date(each.time_ms));
        const item = made("li", "", time, " ", changeText(each));
        item.title = item.innerText;
        return item;
      }),
    );
  }
}
