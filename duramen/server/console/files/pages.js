// The pages there are. One line is one page: `key` is pressed after g, `load` fetches its module when it is first shown.
//
// A module exports `show(root, parts, console)` and `hide()`. `show` fills `root`, which is empty; `parts` is what stands
// behind the name in the address, decoded (`#/table/orders` gives ["orders"]); it is called again when those change.
// `hide` ends its timers and calls. It may export `draw(view)`, called after each event of the server, at most once for
// each frame, and `keys`, a list of [key, words, what it does]. A page that is `hidden` has no link; it is shown to be
// `under` another one.
//
// `console` has `view` (what is known of the server, server_view.js), `go(path)`, and `link()` (how the page is
// connected). What a page asks for, it asks by call.js, and draws by made.js: text stays text.

const data = (facts) => facts.role !== "log"; // a log server knows no tables

export const PAGES = [
  { path: "", name: "night", key: "n", applies: () => true, load: () => import("./night.js") },
  { path: "tables", name: "tables", key: "t", applies: data, load: () => import("./tables.js") },
  { path: "table", name: "table", hidden: true, under: "tables", applies: data, load: () => import("./table.js") },
  { path: "key", name: "key", key: "k", applies: data, load: () => import("./key.js") },
  { path: "log", name: "log", key: "l", applies: data, load: () => import("./log.js") },
  { path: "query", name: "query", key: "q", applies: data, load: () => import("./query.js") },
  { path: "jobs", name: "jobs", key: "j", applies: data, load: () => import("./jobs.js") },
  { path: "changes", name: "changes", key: "c", applies: data, load: () => import("./changes.js") },
  { path: "users", name: "users", key: "u", applies: data, load: () => import("./users.js") },
  { path: "audit", name: "audit", key: "a", applies: data, load: () => import("./audit.js") },
];

export const known = (facts) => PAGES.filter((each) => !each.hidden && (facts === null ? each.path === "" : each.applies(facts)));

// The page of an address, and what stands behind its name; undefined: there is none.
export function pageAt(hash) {
  const [path, ...parts] = hash.replace(/^#?\/?/, "").split("/").map(decoded);
  const page = PAGES.find((each) => each.path === path);
  return page === undefined ? undefined : { page, parts: parts.filter((part) => part !== "") };
}

export const address = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
