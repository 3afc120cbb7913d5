// What stands above the partitions: does the server answer, is all well, what to do first, and the server in numbers.
// Everything is set as text: nothing that a server says becomes HTML.

import { byId, made, setText, withCommands } from "./made.js";
import { Plot } from "./plot.js";
import { UNKNOWN, clock, count, date, duration, perSecond, plural, rate, size } from "./words.js";

const TROUBLES_MAX = 8;
const SKEW_MS = 30_000; // of the browser's clock: less is of no interest

// The tiles: what each is called, its value of now, a line below it, and what of the history it shows.
const TILES = [
  {
    name: "written",
    value: (view, sums) => perSecond(sums.written),
    note: (view, sums) => `applied: ${perSecond(sums.applied)}`,
    past: (answer) => answer.all.written_per_s,
    shown: perSecond,
  },
  {
    name: "lag in records",
    value: (view, sums) => count(sums.lag),
    note: (view, sums) => trend(view, sums),
    past: (answer) => answer.all.lag_records,
    shown: count,
  },
  {
    name: "sync p99",
    value: (view) => (queueOf(view.facts) === null ? UNKNOWN : quiet(view.facts.sync_p99_s)),
    note: (view) => {
      const rates = view.facts.log_rates;
      return view.facts.log === null ? whereLog(view.facts) : rates === null ? "" : `${rate(rates.syncs)} syncs /s`;
    },
    past: (answer) => answer.server.sync_p99_s,
    shown: duration,
  },
  {
    name: "queue age",
    value: (view) => (queueOf(view.facts) === null ? UNKNOWN : duration(view.facts.queue_age_s)),
    note: (view) => {
      const queue = queueOf(view.facts);
      if (queue === null) return whereLog(view.facts);
      const waiting = `${count(queue.queued_batches)} waiting, ${size(queue.queued_bytes)}`;
      return view.facts.log === null ? `${waiting}; ${whereLog(view.facts)}` : waiting;
    },
    past: (answer) => answer.server.queue_age_s,
    shown: duration,
  },
  {
    name: "disk free",
    value: (view) => (view.facts.disk === null ? UNKNOWN : size(view.facts.disk.free_bytes)),
    note: (view) => (view.facts.disk === null ? "this server has no data folder" : disk(view.facts)),
    past: (answer) => answer.server.disk_free_bytes,
    shown: size,
    most: (view) => view.facts?.disk?.full_bytes ?? 0,
  },
  {
    name: "memory",
    value: (view) => size(view.facts.memory_bytes),
    note: (view) => {
      const open = view.facts.connections;
      if (open === null) return "";
      const requests = open.requests === null ? "" : `, ${plural(open.requests, "request")}`;
      return `${count(open.streams)} of ${count(open.streams_max)} streams${requests}`;
    },
  },
];

// What waits for the log's disk, as the log in this process or its server says; null: nobody does.
function queueOf(facts) {
  if (facts.log !== null) return facts.log;
  const server = facts.log_server;
  return server?.alive && server.queue_age_s !== null ? server : null;
}

function whereLog(facts) {
  if (facts.log_place === "kafka") return "the log is Kafka's";
  if (queueOf(facts) !== null) return "as the log's server said lately";
  return facts.log_server?.alive === false ? "the log's server does not answer" : "the log is in another process";
}

// A time of commits; none in the last seconds is not the same as not to know.
function quiet(seconds) {
  return seconds === null ? "no commits" : duration(seconds);
}

function trend(view, sums) {
  if (!sums.all) return "";
  if (!sums.lag) return "all are level";
  const rates = [...view.partitions.values()].map((each) => each.lag_per_s).filter((value) => value !== null);
  if (!rates.length) return "rising or falling: not known yet";
  const sum = rates.reduce((total, value) => total + value, 0);
  if (Math.abs(sum) < 0.05) return "steady";
  return sum > 0 ? `rising ${rate(sum)} /s` : `falling ${rate(-sum)} /s, level in ${duration(sums.lag / -sum)}`;
}

function disk(facts) {
  const share = `${((100 * facts.disk.free_bytes) / Math.max(1, facts.disk.full_bytes)).toFixed(0)} % of ${size(facts.disk.full_bytes)}`;
  const full = facts.disk_full_in_s;
  if (full !== null) return `${share}, full in ${duration(full)} at this rate`;
  return facts.uptime_s < 60 ? `${share}, days left: not known yet` : `${share}, not filling up`;
}

export class NightPage {
  constructor() {
    this.skewMs = 0;
    this.tiles = TILES.map((tile) => new Tile(tile));
    byId("tiles").append(...this.tiles.map((tile) => tile.node));
  }

  // How the page is connected. `since`: ms since 1970 of the last event; null: there was none.
  link(state, why, since) {
    const node = byId("link");
    node.dataset.state = state;
    document.body.dataset.link = state;
    const words = {
      waiting: () => "connecting",
      live: () => "live",
      lost: () =>
        since === null
          ? "NO ANSWER: not since this page was opened"
          : `NO ANSWER since ${clock(since - this.skewMs)}, for ${duration(Math.max(0, Math.round((Date.now() - since) / 1000)))}`,
      full: () => "asked to wait: asking again",
      refused: () => "refused",
      login: () => "who are you?",
    };
    setText(node, words[state]());
    node.title = why;
    if (state === "refused" || state === "full") this.#verdict("bad", "The server does not answer this page", why, []);
    if (state === "lost" && since === null) this.#verdict("bad", "The server does not answer", why, []);
    if (state === "lost" && since !== null) {
      const what = `The server has not answered since ${clock(since - this.skewMs)}: what follows is as old`;
      this.#verdict("bad", what, { what: why, do: "look whether its process is there, and start it again if not" }, []);
    }
    if (state === "login") this.#verdict("waiting", "Not known: nobody has said who asks", "", []);
    this.#title(state);
  }

  show(view) {
    const { facts } = view;
    const sums = view.counts();
    const who = facts.name === facts.role ? facts.role : `${facts.role} ${facts.name}`;
    this.skewMs = view.skewMs;
    const behind = Math.abs(view.skewMs) < SKEW_MS ? "" : ` · this browser's clock is ${duration(Math.abs(view.skewMs) / 1000)} ${view.skewMs > 0 ? "ahead" : "behind"}`;
    setText(byId("server"), `${who} · ${facts.version} · up ${duration(facts.uptime_s)} · ${clock(facts.now_ms)}${behind}`);
    const [worst, ...others] = facts.troubles;
    if (worst === undefined) this.#verdict("good", "All is well", "", []);
    else this.#verdict(facts.ready ? "warn" : "bad", facts.ready ? "Not all is well" : "NOT READY", worst, others);
    this.word = worst === undefined ? "all is well" : facts.ready ? "not all is well" : "NOT READY";
    this.who = who;
    this.#title(document.body.dataset.link);
    for (const tile of this.tiles) tile.show(view, sums);
    this.#nodes(facts);
    return sums;
  }

  past(answer, view) {
    for (const tile of this.tiles) tile.past(answer, view);
    this.mark(this.changes ?? []);
    byId("kept-note").hidden = !answer.kept?.error;
    setText(byId("kept-note"), answer.kept?.error ? `The history is in memory alone for now, and would be gone with this server: ${answer.kept.error}` : "");
  }

  // Marks on the graphs at the times of changes.
  mark(changes) {
    this.changes = changes;
    for (const tile of this.tiles) tile.mark(changes.map((each) => each.time_ms));
  }

  #title(state) {
    if (!this.who) return;
    document.title = state === "live" ? `${this.word} · ${this.who}` : `NO ANSWER · ${this.who}`;
  }

  #verdict(state, word, worst, others) {
    byId("verdict").dataset.state = state;
    const what = typeof worst === "string" ? worst : worst.what;
    setText(byId("word"), what ? `${word}: ${what}` : word);
    const first = typeof worst === "string" ? "" : `Do first: ${worst.do}`;
    if (byId("first").dataset.text !== first) byId("first").replaceChildren(...withCommands(first));
    byId("first").dataset.text = first;
    const shown = others.slice(0, TROUBLES_MAX).map((each) => {
      const item = made("li", each.blocks ? "bad" : "warn", each.what);
      item.append(made("span", "dim", " — ", ...withCommands(each.do)));
      return item;
    });
    if (others.length > TROUBLES_MAX) shown.push(made("li", "dim", `and ${others.length - TROUBLES_MAX} more`));
    byId("troubles").replaceChildren(...shown);
  }

  #nodes(facts) {
    const section = byId("nodes");
    const log = facts.log_server ? [logCard(facts.log_server)] : facts.log_place === "kafka" ? [kafkaCard()] : [];
    section.replaceChildren(...facts.nodes.map((each) => nodeCard(each, facts.uptime_s)), ...log);
    section.hidden = !section.children.length;
  }
}

// The log's server, another process: whether it answers, and its disk and clock as it said them last.
function logCard(log) {
  const card = made("article", log.alive ? "node log-server" : "node log-server lost");
  card.title = log.address;
  card.append(made("h3", "", "the log"), made("strong", log.alive ? "good" : "bad", log.alive ? "answers" : "does not answer"));
  const why = log.alive ? log.stopped : log.reason;
  if (why) card.append(made("span", "note why", why));
  const free = log.disk_free_bytes === null ? UNKNOWN : `${size(log.disk_free_bytes)} of ${size(log.disk_full_bytes)}`;
  card.append(made("span", "note", `disk free ${free}`));
  if (log.alive && Math.abs(log.clock_skew_s) > 1) {
    card.append(made("span", "note warn", `its clock is ${duration(Math.abs(log.clock_skew_s))} ${log.clock_skew_s > 0 ? "ahead" : "behind"}`));
  }
  return card;
}

// Brokers do not say how they are to who writes to them.
function kafkaCard() {
  const card = made("article", "node log-server");
  card.append(made("h3", "", "the log"), made("strong", "", "is Kafka's"));
  card.append(made("span", "note", `clocks and disks of its brokers: ${UNKNOWN} here, ask what watches them`));
  return card;
}

// One node of the cluster: whether it answers, and what it said of itself, with the age of that.
function nodeCard(each, uptime) {
  const since = each.alive_since_s === null ? `≥ ${duration(uptime)}` : duration(Math.max(0, Math.round(uptime - each.alive_since_s)));
  const card = made("article", each.alive ? "node" : "node lost");
  card.title = each.address;
  const state = each.alive ? "answers" : `does not answer, for ${since}`;
  card.append(made("h3", "", each.node), made("strong", each.alive ? "good" : "bad", state));
  const why = each.alive ? each.error : each.reason;
  if (why) {
    const line = made("span", "note why", why);
    line.title = why;
    card.append(line);
  }
  if (each.answered_s === null) {
    card.append(made("span", "note unknown", `its status: ${UNKNOWN}`));
    return card;
  }
  if (each.error || !each.alive) card.append(made("span", "note warn", `what it said ${duration(Math.max(0, Math.round(uptime - each.answered_s)))} ago:`));
  const ready = each.ready ? "ready" : "NOT READY";
  const troubles = each.troubles.length ? `: ${each.troubles.join(", ").replaceAll("_", " ")}` : "";
  card.append(made("span", each.ready ? "note" : "note bad", ready + troubles));
  const unready = each.partitions_unready ? `, ${count(each.partitions_unready)} not ready` : "";
  card.append(made("span", "note", plural(each.partitions, "partition") + unready));
  const free = each.disk_free_bytes === null ? UNKNOWN : `${size(each.disk_free_bytes)} of ${size(each.disk_full_bytes)}`;
  card.append(made("span", "note", `disk free ${free}, memory ${size(each.memory_bytes)}`));
  return card;
}

class Tile {
  constructor(tile) {
    this.tile = tile;
    this.number = made("strong", "value", UNKNOWN);
    this.note = made("span", "note");
    this.node = made("article", "tile", made("h3", "", tile.name), this.number, this.note);
    if (!tile.past) return;
    this.plot = new Plot(40, tile.name);
    this.hint = made("span", "hint");
    this.node.append(this.plot.node, this.hint);
    this.plot.node.addEventListener("pointermove", (event) => this.#point(event));
    this.plot.node.addEventListener("pointerleave", () => setText(this.hint, this.usual ?? ""));
  }

  show(view, sums) {
    const value = this.tile.value(view, sums);
    setText(this.number, value);
    this.number.classList.toggle("unknown", value.startsWith(UNKNOWN));
    setText(this.note, this.tile.note(view, sums));
  }

  past(answer, view) {
    if (!this.plot) return;
    this.answer = answer;
    const values = this.tile.past(answer);
    this.plot.show(values, this.tile.most?.(view) ?? 0);
    const known = values.filter((value) => value !== null);
    this.usual = known.length ? `most: ${this.tile.shown(Math.max(...known))}` : `earlier: ${UNKNOWN}`;
    setText(this.hint, this.usual);
  }

  // `times`: ms since 1970; those outside of the graph are left out.
  mark(times) {
    if (!this.plot || !this.answer) return;
    const { begin_ms, step_s } = this.answer;
    const whole = 1000 * step_s * Math.max(1, this.plot.values.length - 1);
    const shares = times.map((ms) => (ms - begin_ms) / whole).filter((share) => share >= 0);
    this.plot.happened(shares.map((share) => Math.min(1, share))); // within the step that is not over, too
  }

  #point(event) {
    if (!this.answer) return;
    const box = this.plot.node.getBoundingClientRect();
    const at = this.plot.at((event.clientX - box.left) / Math.max(1, box.width));
    const value = this.plot.values[at];
    const ms = this.answer.begin_ms + at * this.answer.step_s * 1000;
    const when = this.answer.step_s < 600 ? clock(ms) : date(ms);
    setText(this.hint, `${when}  ${value === null || value === undefined ? UNKNOWN : this.tile.shown(value)}`);
  }
}

