// Asks again and again while a page is shown and seen: one question is under way at a time, and none when it is over. What
// takes long is asked for less often.

const SHARE = 10; // of the time, so much is spent waiting for answers: a tenth

export class Poll {
  // `ask(signal)`: the question. `take(answer)`, `fail(error)`: what becomes of it.
  constructor(ask, take, fail, eachMs) {
    this.ask = ask;
    this.take = take;
    this.fail = fail;
    this.eachMs = eachMs;
    this.#seen = () => {
      if (!document.hidden && this.#late) this.now();
    };
  }

  #ending = null;
  #timer = 0;
  #late = false;
  #seen;

  start() {
    document.addEventListener("visibilitychange", this.#seen);
    this.now();
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#seen);
    this.#end();
  }

  // Ask now, and not only when it is time. What was asked before is given up.
  async now() {
    this.#end();
    const ending = new AbortController();
    this.#ending = ending;
    this.#late = false;
    const begun = performance.now();
    let answer;
    let failure = null;
    try {
      answer = await this.ask(ending.signal);
    } catch (error) {
      failure = error;
    }
    if (ending.signal.aborted) return;
    if (failure === null) this.take(answer);
    else this.fail(failure);
    this.#timer = setTimeout(() => {
      if (document.hidden) this.#late = true;
      else this.now();
    }, Math.max(this.eachMs, SHARE * (performance.now() - begun)));
  }

  #end() {
    clearTimeout(this.#timer);
    this.#ending?.abort();
    this.#ending = null;
  }
}
