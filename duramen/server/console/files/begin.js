// The forms of what `duramen admin` can do: made of the verbs' own declarations, so one that comes later is here by
// itself. Each shows its plan first.

import { AskFirst } from "./ask_first.js";
import { call } from "./call.js";
import { ask } from "./feed.js";
import { made } from "./made.js";
import { button, field, input } from "./table_field.js";

let verbs = null; // asked for once

async function knownVerbs() {
  if (verbs === null) {
    const reply = await ask("/console/verbs.json");
    if (!reply.ok) throw new Error(`the server answers ${reply.status}`);
    verbs = (await reply.json()).verbs;
  }
  return verbs;
}

export class BeginForm {
  // `begun(job)`: called with the job that began; undefined: there was nothing to do.
  constructor(begun) {
    this.begun = begun;
    this.choose = made("select", "verb");
    this.choose.setAttribute("aria-label", "what shall be done");
    this.help = made("p", "note-line verb-help");
    this.fields = made("div", "fields");
    this.problem = made("p", "bad");
    this.problem.setAttribute("role", "alert");
    this.form = made("form", "ask begin-form", this.choose, this.fields, button("show the plan", null));
    this.node = made("section", "begin", this.form, this.help, this.problem);
    this.choose.addEventListener("change", () => this.#chosen());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.inputs = new Map();
    this.#load();
  }

  async #load() {
    try {
      const all = await knownVerbs();
      this.choose.replaceChildren(...all.map((verb) => Object.assign(made("option", "", verb.words), { value: verb.message })));
      this.#chosen();
    } catch (error) {
      this.problem.textContent = `what can be done is not known: ${error.message}`;
    }
  }

  // Fill in a form, as a link to it does.
  async prepare(message, values) {
    await knownVerbs().catch(() => {});
    this.choose.value = message;
    this.#chosen();
    for (const [name, value] of Object.entries(values)) {
      const known = this.inputs.get(name);
      if (known?.type === "checkbox") known.checked = Boolean(value);
      else if (known) known.value = String(value);
    }
    this.choose.focus();
  }

  #chosen() {
    this.verb = verbs?.find((verb) => verb.message === this.choose.value);
    this.inputs.clear();
    if (!this.verb) return;
    this.help.textContent = this.verb.help;
    this.problem.textContent = "";
    this.fields.replaceChildren(...this.verb.fields.map((each) => this.#field(each)));
  }

  #field(each) {
    const node = input(`value-${each.name}`, each.kind === "number" ? 8 : 16, 2000);
    if (each.kind === "flag") node.type = "checkbox";
    if (each.kind === "number") node.inputMode = "numeric";
    if (each.kind !== "flag") node.required = each.required;
    node.name = each.name;
    if (each.usual) node.placeholder = each.usual;
    this.inputs.set(each.name, node);
    return field(each.words + (each.required || each.kind === "flag" ? "" : " (may be empty)"), node, each.help);
  }

  // The fields as the method takes them; throws what is wrong.
  #request() {
    const found = {};
    for (const each of this.verb.fields) {
      const node = this.inputs.get(each.name);
      if (each.kind === "flag") found[each.name] = node.checked;
      else if (node.value.trim() === "") continue;
      else if (each.kind === "number") {
        if (!/^-?\d{1,18}$/.test(node.value.trim())) throw new Error(`${each.words}: ${node.value} is no whole number`);
        found[each.name] = node.value.trim(); // protobuf takes a number's text, whatever a double holds
      } else found[each.name] = node.value.trim();
    }
    return found;
  }

  #submit() {
    const { verb } = this;
    if (!verb) return;
    let fields;
    try {
      fields = this.#request();
    } catch (error) {
      this.problem.textContent = error.message;
      return;
    }
    this.problem.textContent = "";
    new AskFirst({
      title: verb.words,
      plan: (signal) => call("Admin/Start", { dry_run: true, [verb.message]: fields }, { signal, timeout_s: 20 }),
      begin: (plan) =>
        call("Admin/Start", { plan: plan.plan, version: plan.version, [verb.message]: fields }, { timeout_s: 20 }),
      destroys: (plan) => {
        const some = !verb.destroys_if.length || plan.steps.some((step) => verb.destroys_if.includes(step.action));
        return some ? verb.destroys : "";
      },
      begun: (reply) => this.begun(reply.job),
    });
  }
}
