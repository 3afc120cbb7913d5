// What is known of the server: the newest document, made of the events in the order in which they came. No DOM in here.

const READABLE = new Set(["ready", "behind"]);

export class ServerView {
  constructor() {
    this.facts = null; // until the first event
    this.partitions = new Map();
    this.columns = [];
    this.skewMs = 0; // how far the browser's clock is ahead of the server's
  }

  // One event of /events.
  take(kind, data) {
    if (kind === "whole") {
      this.columns = data.columns;
      this.facts = data.facts;
      this.partitions = new Map();
      this.#rows(data.rows);
    } else if (kind === "change" && this.facts !== null) {
      this.facts = { ...this.facts, ...data.facts };
      for (const [table, partition] of data.gone) this.partitions.delete(`${table}/${partition}`);
      this.#rows(data.rows);
    }
  }

  #rows(rows) {
    for (const row of rows) {
      const partition = {};
      this.columns.forEach((name, place) => {
        partition[name] = row[place];
      });
      partition.name = `${partition.table}/${partition.partition}`;
      partition.lag = Math.max(0, partition.last - partition.applied);
      partition.readable = READABLE.has(partition.state);
      partition.well = partition.state === "ready" && partition.ready >= partition.wanted;
      this.partitions.set(partition.name, partition);
    }
  }

  // All whose name, state or reason has the text; what needs somebody first.
  sorted(text = "") {
    const wanted = text.trim().toLowerCase();
    const found = [...this.partitions.values()].filter(
      (each) => !wanted || `${each.name} ${each.state} ${each.reason}`.toLowerCase().includes(wanted),
    );
    return found.sort(byUrgency);
  }

  counts() {
    const all = [...this.partitions.values()];
    return {
      all: all.length,
      unreadable: all.filter((each) => !each.readable).length,
      behind: all.filter((each) => each.state === "behind").length,
      missing: all.filter((each) => each.state === "ready" && !each.well).length,
      unwell: all.filter((each) => !each.well).length,
      lag: all.reduce((sum, each) => sum + each.lag, 0),
      written: summed(all, "written_per_s"),
      applied: summed(all, "applied_per_s"),
    };
  }

  // How long a partition has been in its state; null: longer than anybody has looked.
  stateFor(partition) {
    const since = partition.state_since_s;
    return since === null ? null : Math.max(0, this.facts.uptime_s - since);
  }
}

// The order of `duramen top`, with what cannot be read before everything else.
function byUrgency(one, other) {
  return (
    one.readable - other.readable ||
    one.well - other.well ||
    other.lag - one.lag ||
    (other.written_per_s ?? 0) - (one.written_per_s ?? 0) ||
    (one.table < other.table ? -1 : one.table > other.table ? 1 : one.partition - other.partition)
  );
}

// The sum of what is known; null where nothing is.
function summed(all, name) {
  const known = all.map((each) => each[name]).filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
}
