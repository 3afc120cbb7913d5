// Jobs with their progress, and what can be begun: each with its plan first.

import { AskFirst } from "./ask_first.js";
import { BeginForm } from "./begin.js";
import { call } from "./call.js";
import { failure, when } from "./documents.js";
import { made, setText } from "./made.js";
import { address } from "./pages.js";
import { Poll } from "./poll.js";
import { button } from "./table_field.js";
import { whoAmI } from "./who.js";
import { count, duration, plural, size } from "./words.js";

const EACH_MS = 1000;
const JOBS_MAX = 120; // the catalog remembers a hundred that are over
const TASKS_MAX = 300;

const isOver = (job) => job.state === "done" || job.state === "aborted";

// A bar of what is done: a number too, for who does not see it.
function bar(done, total, words) {
  const node = made("progress");
  node.max = Math.max(1, total);
  node.value = Math.min(done, node.max);
  node.title = words;
  node.setAttribute("aria-label", words);
  return node;
}

class JobsPage {
  constructor(root, parts, console) {
    this.root = root;
    this.console = console;
    this.title = made("h2", "page-title", "jobs");
    this.note = made("p", "note-line", "asking the server");
    this.healing = made("section", "card healing");
    this.healing.hidden = true;
    this.list = made("section", "jobs-list");
    this.detail = made("section", "card job-detail");
    this.detail.hidden = true;
    this.mine = made("div"); // what only somebody with rights has
    root.append(this.title, this.note, this.mine, this.detail, this.list, this.healing);
    this.opened(parts);
    this.who = null;
    this.jobs = [];
    this.poll = new Poll((signal) => this.#ask(signal), (answer) => this.#take(answer), (error) => this.#fail(error), EACH_MS);
    this.poll.start();
  }

  close() {
    this.poll.stop();
  }

  // What stands in the address: a job; `begin`, a verb and its fields as name=value; or nothing: the list alone.
  opened(parts) {
    this.wanted = parts[0] === "begin" && parts.length > 1 ? parts.slice(1) : null;
    this.number = /^\d{1,15}$/.test(parts[0] ?? "") ? Number(parts[0]) : null;
    this.detail.hidden = true;
    this.poll?.now();
  }

  async #ask(signal) {
    this.who ??= await whoAmI(signal);
    this.#mine();
    const [jobs, job, healing] = await Promise.all([
      call("Admin/Jobs", {}, { signal }),
      this.number === null ? null : call("Admin/Job", { job: this.number }, { signal }).catch((error) => ({ error })),
      this.who.isSuperuser && this.console.view.facts?.role === "router" ? call("Admin/Healing", {}, { signal }).catch(() => null) : null,
    ]);
    return { jobs: jobs.jobs, job, healing };
  }

  #mine() {
    if (!this.who.isAdmin || this.form) return;
    this.form = new BeginForm((job) => {
      this.poll.now();
      if (job === undefined) setText(this.note, "Nothing had to be done.");
      else this.console.go(address("jobs", String(job)));
    });
    this.mine.append(this.form.node);
    if (this.wanted) this.form.prepare(this.wanted[0], Object.fromEntries(this.wanted.slice(1).map((each) => each.split("="))));
  }

  #take({ jobs, job, healing }) {
    this.jobs = jobs;
    this.shown = jobs;
    const running = jobs.filter((each) => each.state === "running").length;
    const failed = jobs.filter((each) => each.state === "failed").length;
    const words = jobs.length ? `${count(running)} running${failed ? `, ${count(failed)} failed` : ""}, ${plural(jobs.length, "job")} known` : "There was no job yet.";
    setText(this.title, running ? `jobs: ${running} running` : "jobs");
    setText(this.note, words);
    this.note.className = failed ? "note-line warn" : "note-line";
    this.#list();
    this.#detail(job);
    this.#healing(healing);
  }

  #fail(error) {
    this.note.replaceChildren(...failure(error).childNodes);
    this.note.className = error.code === "permission_denied" ? "note-line" : "note-line bad";
    if (error.code === "unauthenticated") this.who = null;
  }

  #list() {
    const table = made("table", "list jobs");
    const heads = ["job", "what", "state", "progress", "began", "waits for"];
    table.createTHead().append(made("tr", "", ...heads.map((name) => made("th", "", name))));
    table.createTBody().append(...this.jobs.slice(0, JOBS_MAX).map((job) => this.#row(job)));
    this.list.replaceChildren(...(this.jobs.length ? [made("div", "wide", table)] : []));
  }

  #row(job) {
    const link = made("a", "", String(job.job));
    link.href = address("jobs", String(job.job));
    const words = `${count(job.done)} of ${count(job.tasks)} tasks${job.failed ? `, ${count(job.failed)} failed` : ""}`;
    const row = made(
      "tr", job.job === this.number ? "selected" : "",
      made("td", "", link),
      made("td", "", `${job.kind} ${job.subject}`),
      made("td", job.state === "failed" ? "bad" : job.state === "running" ? "good" : "dim", job.state),
      made("td", "", isOver(job) ? words : bar(job.done, job.tasks, words), isOver(job) ? "" : ` ${words}`),
      made("td", "", when(job.started_ms).slice(0, 19)),
      made("td", job.waits_for.length ? "warn" : "", job.waits_for.join(", ") || "–"),
    );
    row.dataset.job = job.job;
    return row;
  }

  #detail(job) {
    this.detail.hidden = job === null;
    if (job === null) return;
    if (job.error) {
      this.detail.replaceChildren(failure(job.error));
      return;
    }
    const words = `${count(job.done)} of ${count(job.tasks)} tasks are done`;
    const head = made("div", "bar", made("h2", "", `job ${job.job}: ${job.kind} ${job.subject}, ${job.state}`));
    if (this.who.isAdmin && !isOver(job)) {
      head.append(
        button("take up again", () => this.#goOn("Resume", job), "failed tasks, and those of nodes that are lost"),
        button("abort", () => this.#goOn("Abort", job), "undo what is not done"),
      );
    }
    const back = made("a", "", "all jobs");
    back.href = address("jobs");
    head.append(back);
    const table = made("table", "list tasks");
    const heads = ["task", "what", "partition", "node", "state", "progress", ""];
    table.createTHead().append(made("tr", "", ...heads.map((name) => made("th", "", name))));
    table.createTBody().append(...job.task_list.slice(0, TASKS_MAX).map(taskRow));
    const more = job.task_list.length - TASKS_MAX;
    this.detail.replaceChildren(head, bar(job.done, job.tasks, words), made("p", "note-line", words), made("div", "wide", table), more > 0 ? `and ${count(more)} more` : "");
  }

  #goOn(method, job) {
    new AskFirst({
      title: `${method === "Abort" ? "abort" : "take up again"}: job ${job.job}`,
      words: method === "Abort" ? "abort it" : "take it up again",
      plan: (signal) => call(`Admin/${method}`, { job: job.job, dry_run: true }, { signal }),
      begin: () => call(`Admin/${method}`, { job: job.job }),
      begun: () => this.poll.now(),
    });
  }

  #healing(healing) {
    const relief = healing?.relief;
    const quiet = (what) => what.action === "nothing" && !what.off;
    this.healing.hidden = healing === null || (!healing.lost.length && quiet(healing) && !relief?.strained.length && (!relief || quiet(relief)));
    if (this.healing.hidden) return;
    const lost = healing.lost.map((each) => {
      const left = each.left_s === undefined || each.left_s === null ? "healing is off" : `healed in ${duration(each.left_s)}`;
      return made("p", "warn", `node ${each.node} is lost for ${duration(each.lost_s)} (${each.reason}): ${left}`);
    });
    const bound = healing.bytes_s ? `${size(healing.bytes_s)}/s` : "as fast as nodes copy";
    const after = healing.off ? "Healing is switched off: automate heal switches it on." : healing.after_s ? `A node is healed when it is lost for ${duration(healing.after_s)}: ${count(healing.copies)} replicas at once, ${bound}.` : "Healing is off.";
    const strained = (relief?.strained ?? []).map((each) => {
      const left = each.left_s === undefined || each.left_s === null ? "relief is off" : `relieved in ${duration(each.left_s)}`;
      return made("p", "warn", `node ${each.node} is ${each.kind} for ${duration(each.seen_s)} (${each.reason}): ${left}`);
    });
    const off = relief?.off ? "Relief is switched off: automate relieve switches it on." : "";
    const blocked = [...healing.blocked, ...(relief?.blocked ?? [])].map((each) => made("p", "warn", each));
    this.healing.replaceChildren(
      made("h2", "", "what routers do by themselves"),
      ...lost, made("p", "note-line", after), made("p", "", does(healing)),
      ...strained, made("p", "note-line", off), made("p", "", relief ? does(relief) : ""),
      ...blocked,
    );
  }
}

// What a router would do now about lost or strained nodes.
function does(what) {
  if (what.action === "nothing") return "";
  return `Now: ${what.action}${what.job === undefined || what.job === null ? "" : ` job ${what.job}`} ${what.reason}`;
}

function taskRow(task) {
  const progress = task.total ? `${size(task.done)} of ${size(task.total)}` : "";
  return made(
    "tr", task.state === "done" ? "dim" : "",
    made("td", "", String(task.task)),
    made("td", "", task.action),
    made("td", "", `${task.table}/${task.partition}`),
    made("td", "", task.source ? `${task.source} → ${task.node}` : task.node),
    made("td", task.state === "failed" ? "bad" : "", task.state),
    made("td", "", task.total ? bar(task.done, task.total, progress) : "", ` ${[task.phase, progress].filter(Boolean).join(" ")}`),
    made("td", "what", task.note),
  );
}

let shown = null;

export function show(root, parts, console) {
  if (shown === null) shown = new JobsPage(root, parts, console);
  else shown.opened(parts);
}

export function hide() {
  shown.close();
  shown = null;
}

function move(by) {
  const jobs = shown.jobs.map((each) => each.job);
  const at = jobs.indexOf(shown.number);
  const next = jobs[Math.min(jobs.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  if (next !== undefined) shown.console.go(address("jobs", String(next)));
}

export const keys = [
  ["j", "the next job", () => move(1)],
  ["k", "the previous job", () => move(-1)],
  ["b", "begin something", () => shown.form?.choose.focus()],
  ["Escape", "", () => shown.console.go(address("jobs"))],
];
