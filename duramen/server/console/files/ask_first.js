// A dialog that shows a plan, asks, and begins it: exactly the plan that was shown, on the catalog that it was made of.

import { made } from "./made.js";
import { planView } from "./plan_view.js";
import { button } from "./table_field.js";

let open = null; // one dialog at a time

// `plan()`: the plan, shown first. `begin(plan)`: what begins it. `destroys(plan)`: what is lost; empty: nothing.
// `words`: what the button says. `begun(reply)`: called when it has begun.
export class AskFirst {
  constructor({ title, plan, begin, begun, words = "begin", destroys = () => "" }) {
    open?.close();
    open = this;
    this.ask = { plan, begin, begun, words, destroys };
    this.body = made("div", "ask-body");
    this.problem = made("p", "bad ask-problem");
    this.problem.setAttribute("role", "alert");
    this.yes = button(words, () => this.#begin());
    this.yes.classList.add("primary");
    this.again = button("look again", () => this.#look());
    this.again.classList.add("look-again");
    this.no = button("cancel", () => this.close());
    this.node = made("dialog", "ask-first", made("h2", "", title), this.body, this.problem,
      made("div", "bar buttons", this.yes, this.again, this.no));
    this.node.addEventListener("close", () => this.close());
    document.body.append(this.node);
    this.node.showModal();
    this.#look();
  }

  close() {
    if (open === this) open = null;
    this.ending?.abort();
    this.node.remove();
  }

  async #look() {
    this.#say("");
    this.yes.hidden = this.again.hidden = true;
    this.body.replaceChildren(made("p", "dim", "asking what would be done"));
    this.ending = new AbortController();
    const { signal } = this.ending;
    try {
      this.plan = await this.ask.plan(signal);
    } catch (error) {
      if (signal.aborted) return;
      this.body.replaceChildren();
      this.#fail(error);
      return;
    }
    const destroys = this.ask.destroys(this.plan);
    this.body.replaceChildren(planView(this.plan, destroys));
    this.yes.hidden = false;
    this.yes.textContent = destroys ? `${this.ask.words}: ${this.plan.kind} ${this.plan.subject}` : this.ask.words;
    this.yes.classList.toggle("danger", Boolean(destroys));
    (destroys ? this.no : this.yes).focus();
  }

  async #begin() {
    this.yes.disabled = true; // pressed twice, it begins once
    this.#say("");
    try {
      const reply = await this.ask.begin(this.plan);
      this.close();
      this.ask.begun(reply);
    } catch (error) {
      this.yes.hidden = true;
      this.#fail(error);
    } finally {
      this.yes.disabled = false;
    }
  }

  #fail(error) {
    const lost = error.code === "disconnected" || error.code === "deadline_exceeded";
    const why = lost ? `${error.message}: it is not known whether it has begun. Look at the jobs before you try again.` : error.message;
    this.#say(why);
    this.again.hidden = false;
    this.again.focus();
  }

  #say(text) {
    this.problem.textContent = text;
  }
}
