// The last hour or week, asked for again from time to time: of the server, and of the partitions that are on the screen.
// It holds one answer of each, however long the page is open.

import { ask } from "./feed.js";

const SERVER_EACH_MS = 10_000;
const YOUNG_MS = 2_000; // of a server that has a few points only
const PARTITION_EACH_MS = 60_000;
const HOUR_S = 3600;
const WEEK_S = 7 * 24 * HOUR_S;
const POINTS = 60; // of a partition's graph
const AT_ONCE = 32; // partitions of one question
const KEPT = 400; // graphs of partitions

export class Past {
  // onServer(answer), onPartition(name, answer of it, step): called when there is something new.
  constructor(onServer, onPartition) {
    this.onServer = onServer;
    this.onPartition = onPartition;
    this.partitions = new Map(); // name → {at, lag, written}, the one that was needed longest ago first
    this.wanted = new Set();
    this.span = HOUR_S;
    this.asking = false;
    this.serverAt = -Infinity;
    this.serverEach = 0;
  }

  // Ask for what is missing or old. Called often; one question is under way at a time.
  async refresh() {
    if (this.asking) return;
    this.asking = true;
    try {
      const now = performance.now();
      if (now - this.serverAt > this.serverEach) {
        this.serverAt = now;
        const span = this.span;
        const answer = await asked(`since=-${span}`);
        if (answer !== null && span === this.span) {
          const known = answer.server.ready.filter((value) => value !== null).length;
          this.serverEach = known < 12 ? YOUNG_MS : SERVER_EACH_MS;
          this.onServer(answer);
        }
      }
      const names = [...this.wanted].filter((name) => this.#isOld(name, now)).slice(0, AT_ONCE);
      if (names.length) await this.#askFor(names, now);
    } finally {
      this.asking = false;
    }
  }

  // What the graphs are of, in words.
  get words() {
    return this.span === HOUR_S ? "last hour" : "last week";
  }

  // The week in place of the hour, and back.
  turn() {
    this.span = this.span === HOUR_S ? WEEK_S : HOUR_S;
    this.forget();
  }

  // After another look at the server: what was asked for before may be another server's.
  forget() {
    this.serverAt = -Infinity;
    this.partitions.clear();
  }

  #isOld(name, now) {
    const known = this.partitions.get(name);
    return known === undefined || now - known.at > PARTITION_EACH_MS;
  }

  async #askFor(names, now) {
    const query = names.map((name) => `of=${encodeURIComponent(name)}`).join("&");
    const span = this.span;
    const answer = await asked(`since=-${span}&step=${span / POINTS}&${query}`);
    if (answer === null || span !== this.span) return;
    for (const name of names) this.partitions.set(name, { at: now, lag: [], written: [] });
    for (const each of answer.of) {
      const name = `${each.table}/${each.partition}`;
      const lag = each.last.map((last, at) => (last === null ? null : Math.max(0, last - each.applied[at])));
      this.partitions.delete(name);
      this.partitions.set(name, { at: now, lag, written: each.written_per_s });
      this.onPartition(name);
    }
    while (this.partitions.size > KEPT) this.partitions.delete(this.partitions.keys().next().value);
  }
}

async function asked(query) {
  try {
    const reply = await ask(`/history?${query}`);
    return reply.ok ? await reply.json() : null;
  } catch {
    return null; // the feed says that the server does not answer
  }
}
