// The stream of /events, opened again for as long as the page is there. By fetch and not by EventSource, which cannot
// send the header with the token.

import { token } from "./kept.js";

const AGAIN_MS = 1000;
const SILENT_MS = 1700; // an event comes each second; the page says within two that none comes

// A browser opens six connections to a server, for all of its tabs together. So a tab that nobody sees holds none: it looks
// from time to time, and its title says what it found.
const HIDDEN_MS = 3000; // until it lets go: who turns to another tab is often back at once
const LOOK_MS = 10_000;
const REST = Symbol("nobody sees the tab");

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function ask(path, signal) {
  return fetch(path, { headers: proof(), signal, ...ALWAYS });
}

// The same with a document.
export async function send(path, document, signal) {
  const headers = { ...proof(), "Content-Type": "application/json" };
  return fetch(path, { method: "POST", headers, signal, body: JSON.stringify(document), ...ALWAYS });
}

const ALWAYS = { cache: "no-store", credentials: "omit", redirect: "error" };

const proof = () => (token.get() ? { Authorization: `Bearer ${token.get()}` } : {});

export class Feed {
  // onEvent(kind, data): one event. onState(state, why): "live", "lost", "full", "refused", or "login".
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.heardAt = null; // when the last event came, ms since 1970; null: none ever came
    this.state = "waiting";
    this.resting = false; // it holds no connection
    this.#heard = performance.now();
    this.#wake = () => {};
    this.#turn();
    document.addEventListener("visibilitychange", () => this.#turn());
    setInterval(() => this.#listen(), 250);
  }

  #heard;
  #wake;
  #hiddenAt = Infinity; // since when nobody sees the tab
  #seen = () => {}; // ends a rest

  async run() {
    for (;;) {
      const again = await this.#once();
      if (again === REST) await this.#rest();
      else if (again) await pause(again);
      else await new Promise((resolve) => (this.#wake = resolve)); // until somebody has given a token
    }
  }

  // Go on after a refusal.
  retry() {
    this.#say("waiting", "connecting");
    this.#wake();
  }

  #turn() {
    this.#hiddenAt = document.hidden ? performance.now() : Infinity;
    if (!document.hidden) this.#seen();
  }

  // Hold no connection, until it is time for another look, or somebody sees the tab.
  async #rest() {
    this.resting = true;
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, LOOK_MS);
      this.#seen = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.resting = false;
    this.#heard = performance.now();
  }

  // Read one stream to its end; in how many ms to ask again, 0: when `retry` is called, REST: after a rest.
  async #once() {
    const ending = new AbortController();
    const shown = token.get(); // by which this stream is asked for
    try {
      const reply = await ask("/events", ending.signal);
      if (reply.status === 401) return this.#refused(shown, shown ? await reason(reply) : "This server answers users: it wants a token.");
      if (reply.status === 503 || reply.status === 429) {
        this.#say("full", await reason(reply));
        return 1000 * (Number(reply.headers.get("Retry-After")) || 5);
      }
      if (!reply.ok) {
        this.#say("refused", await reason(reply));
        return 5 * AGAIN_MS;
      }
      const end = await this.#read(reply.body.getReader());
      if (end === REST) return REST;
      if (end !== null) return this.#refused(shown, end);
      this.#say("lost", "the server ended the stream");
    } catch (error) {
      this.#say("lost", error instanceof Error ? error.message : String(error));
    } finally {
      ending.abort();
    }
    return AGAIN_MS;
  }

  // The token is no good: forget it, and wait for another one. One that was given meanwhile is tried.
  #refused(shown, why) {
    if (token.get() !== shown) return 1;
    token.set("");
    this.#say("login", why);
    return 0;
  }

  // Why the server ended the stream; null: it is only over; REST: nobody sees what it brings.
  async #read(reader) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return null;
      text += decoder.decode(value, { stream: true });
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) {
        const { kind, data } = parsed(event);
        if (kind === "end") return data.error;
        this.#heard = performance.now();
        this.heardAt = Date.now();
        this.onEvent(kind, data);
        this.#say("live", "");
        if (performance.now() - this.#hiddenAt > HIDDEN_MS) return REST;
      }
    }
  }

  #listen() {
    if (this.state === "live" && !this.resting && performance.now() - this.#heard > SILENT_MS) {
      this.#say("lost", "nothing comes from the server");
    }
  }

  #say(state, why) {
    this.state = state;
    this.onState(state, why);
  }
}

function parsed(event) {
  const fields = Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  return { kind: fields.event, data: JSON.parse(fields.data) };
}

async function reason(reply) {
  try {
    return String((await reply.json()).error);
  } catch {
    return `the server answers ${reply.status}`;
  }
}
