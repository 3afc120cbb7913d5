// What a person asks by hand: one question at a time. A new one gives up the one before, and so does leaving the page; the
// server then works on it no longer.

export class Question {
  // `body`: what is pale while there is no answer yet.
  constructor(body) {
    this.body = body;
  }

  #ending = new AbortController();

  // Of the question that was asked last: for what belongs to it.
  get signal() {
    return this.#ending.signal;
  }

  // `asked(signal)`: the question. `take(answer)`, `fail(error)`: what becomes of it, unless it is given up before.
  async ask(asked, take, fail) {
    this.end();
    const { signal } = (this.#ending = new AbortController());
    this.body.classList.add("asking");
    try {
      const answer = await asked(signal);
      if (!signal.aborted) take(answer);
    } catch (error) {
      if (!signal.aborted) fail(error);
    } finally {
      if (!signal.aborted) this.body.classList.remove("asking");
    }
  }

  // Give up what is asked.
  end() {
    this.#ending.abort();
    this.body.classList.remove("asking");
  }
}
