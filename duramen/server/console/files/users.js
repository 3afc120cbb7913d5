// Users, roles and what each may do, and quotas: all of them for who administers the cluster, else what is the caller's own.

import { call } from "./call.js";
import { failure, when } from "./documents.js";
import { made, setText } from "./made.js";
import { Poll } from "./poll.js";
import { whoAmI } from "./who.js";
import { count, plural, size } from "./words.js";

const EACH_MS = 5000;

const BOUNDS = [
  ["calls_s", (value) => `${count(value)} calls /s`],
  ["bytes_in_s", (value) => `${size(value)}/s in`],
  ["bytes_out_s", (value) => `${size(value)}/s out`],
  ["scans", (value) => plural(value, "scan")],
  ["watches", (value) => (value === 1 ? "1 watch" : `${count(value)} watches`)],
  ["connections", (value) => plural(value, "connection")],
];

// A quota in words: its known bounds, and those that come later by their names.
function bounds(quota) {
  const known = BOUNDS.filter(([name]) => quota[name]).map(([name, words]) => words(quota[name]));
  const names = new Set(BOUNDS.map(([name]) => name));
  const others = Object.entries(quota).filter(([name, value]) => value && !names.has(name)).map(([name, value]) => `${name} ${value}`);
  return [...known, ...others].join(", ") || "no bound";
}

function listOf(className, heads, rows) {
  const table = made("table", `list ${className}`);
  table.createTHead().append(made("tr", "", ...heads.map((name) => made("th", "", name))));
  table.createTBody().append(...rows.map((cells) => made("tr", "", ...cells.map((cell) => made("td", "", cell)))));
  return made("div", "wide", table);
}

// Each on a line of its own.
const lines = (texts) => made("span", "lines", ...(texts.length ? texts.map((text) => made("code", "", text)) : ["–"]));

class UsersPage {
  constructor(root) {
    this.title = made("h2", "page-title", "users");
    this.note = made("p", "note-line", "asking the server");
    this.body = made("div", "answer");
    root.append(this.title, this.note, this.body);
    this.poll = new Poll((signal) => this.#ask(signal), (answer) => this.#take(answer), (error) => this.#fail(error), EACH_MS);
    this.poll.start();
  }

  close() {
    this.poll.stop();
  }

  async #ask(signal) {
    const who = await whoAmI(signal);
    if (!who.isSuperuser) return { who };
    const [users, quotas] = await Promise.all([call("Users/ListUsers", {}, { signal }), call("Users/ListQuotas", {}, { signal })]);
    return { who, users, quotas: quotas.quotas };
  }

  #take({ who, users, quotas }) {
    const text = JSON.stringify([who, users, quotas]);
    if (text === this.text) return; // what is selected in the page stays so
    this.text = text;
    this.note.className = "note-line";
    if (who.user === "") {
      setText(this.note, "The cluster has no users: everybody who reaches it may do everything.");
      this.body.replaceChildren(made("p", "", "The first one: ", made("code", "", "duramen user add NAME --grant 'admin *'"), "."));
      return;
    }
    const expires = who.expires_ms ? `, until ${when(who.expires_ms).slice(0, 19)}` : "";
    setText(this.note, `You are ${who.user}, by ${who.proof}${expires}.`);
    const own = made("section", "card", made("h2", "", "what you may do"), lines(who.grants), made("p", "note-line", who.roles.length ? `roles: ${who.roles.join(", ")}` : "no roles"));
    if (users === undefined) {
      setText(this.title, "you");
      this.body.replaceChildren(own, made("p", "note-line", "Other users are shown to who has the grant admin *."));
      return;
    }
    setText(this.title, `${plural(users.users.length, "user")}, ${plural(users.roles.length, "role")}, ${plural(quotas.length, "quota")}`);
    this.body.replaceChildren(
      listOf("users-list", ["user", "grants", "roles", "proves itself by"], users.users.map((each) => [each.user, lines(each.grants), each.roles.join(", ") || "–", proofs(each)])),
      ...(users.roles.length ? [listOf("roles-list", ["role", "grants"], users.roles.map((each) => [each.role, lines(each.grants)]))] : []),
      ...(quotas.length ? [listOf("quotas-list", ["quota of", "each server gives it"], quotas.map((each) => [each.user ? `user ${each.user}` : `table ${each.table}`, bounds(each.quota)]))] : []),
      own,
    );
  }

  #fail(error) {
    this.text = null;
    this.note.replaceChildren(...failure(error).childNodes);
    this.note.className = error.code === "permission_denied" ? "note-line" : "note-line bad";
  }
}

function proofs(user) {
  const tokens = user.tokens.map((each) => `token ${each.id}${each.expires_ms ? ` until ${when(each.expires_ms).slice(0, 16)}` : ""}`);
  return lines([...(user.has_password ? ["password"] : []), ...tokens]);
}

let shown = null;

export function show(root) {
  shown ??= new UsersPage(root);
}

export function hide() {
  shown.close();
  shown = null;
}
