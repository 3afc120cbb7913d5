// The frame of all pages: which one is shown, by the part of the address behind #, and the links and keys to them.

import { byId, made } from "./made.js";
import { known, pageAt } from "./pages.js";

export class Frame {
  // `view`: what is known of the server. `link`: how the page is connected.
  constructor(view, link) {
    this.console = { view, link, go: (path) => { location.hash = path; } };
    this.shown = null; // the page
    this.module = null; // its module, once it is there
    this.turn = 0; // of the last page that was asked for
    addEventListener("hashchange", () => this.open());
  }

  // Show the page of the address.
  async open() {
    const found = pageAt(location.hash) ?? pageAt("");
    this.turn += 1;
    const turn = this.turn;
    this.#links(found.page);
    let module;
    try {
      module = await found.page.load();
    } catch {
      if (turn === this.turn) this.#say("The server does not answer: this page could not be loaded. Try it again.");
      return;
    }
    if (turn !== this.turn) return; // another one was asked for meanwhile
    if (this.shown !== found.page) {
      this.module?.hide();
      byId("page").replaceChildren();
      scrollTo(0, 0);
    }
    this.shown = found.page;
    this.module = module;
    document.body.dataset.page = found.page.path || "night";
    module.show(byId("page"), found.parts, this.console);
    this.draw();
  }

  // Something of the server is new.
  draw() {
    const { view } = this.console;
    if (view.facts === null) return;
    this.#links(this.shown);
    if (this.shown !== null && !this.shown.applies(view.facts)) this.console.go("#/");
    else this.module?.draw?.(view);
  }

  // The page of a letter; undefined: there is none here.
  page(letter) {
    return known(this.console.view.facts).find((each) => each.key === letter);
  }

  // The keys of the shown page, by their names.
  keys() {
    return new Map((this.module?.keys ?? []).map(([key, , act]) => [key, act]));
  }

  // What is listed of keys: of the shown page, and to go to pages.
  listed() {
    const own = (this.module?.keys ?? []).map(([key, words]) => [[key], words]);
    const pages = known(this.console.view.facts).map((each) => [["g", each.key], each.name]);
    return [...own, ...pages].filter(([, words]) => words);
  }

  #links(page) {
    const pages = known(this.console.view.facts);
    const nav = byId("pages");
    nav.hidden = pages.length < 2;
    const state = `${pages.map((each) => each.path).join()} ${page?.path}`;
    if (nav.dataset.state === state) return;
    nav.dataset.state = state;
    nav.replaceChildren(
      ...pages.map((each) => {
        const link = made("a", "", each.name);
        link.href = `#/${each.path}`;
        link.title = `g ${each.key}`;
        if (each === page || each.path === page?.under) link.setAttribute("aria-current", "page");
        return link;
      }),
    );
  }

  #say(text) {
    this.module?.hide();
    this.module = this.shown = null;
    byId("page").replaceChildren(made("p", "verdict bad", text));
  }
}
