// A table of many rows, of which those on the screen, and a few around them, are in the document. All are equally high.

import { made } from "./made.js";

const AROUND = 8; // rows above and below the screen

export class Rows {
  // `table`: with a body. `make(item)`: a <tr> for one item. `fill(row, item)`: set what is in it. `name(item)`: which
  // tells it from all others. `height`: of a row, until one has been measured.
  constructor(table, { make, fill, name, height = 30 }) {
    this.table = table;
    this.body = table.tBodies[0] ?? table.createTBody();
    this.make = make;
    this.fill = fill;
    this.name = name;
    this.height = height;
    this.items = [];
    this.rows = new Map();
    this.above = made("tr", "space");
    this.below = made("tr", "space");
    this.body.append(this.above, this.below);
    this.#moved = () => this.draw();
    for (const event of ["scroll", "resize"]) addEventListener(event, this.#moved, { passive: true });
  }

  #moved;

  close() {
    for (const event of ["scroll", "resize"]) removeEventListener(event, this.#moved);
  }

  show(items) {
    this.items = items;
    this.draw();
  }

  draw() {
    const top = this.body.getBoundingClientRect().top;
    const first = Math.min(this.items.length, Math.max(0, Math.floor(-top / this.height) - AROUND));
    const last = Math.max(first, Math.ceil((innerHeight - top) / this.height)) + AROUND;
    const shown = this.items.slice(first, last);
    const names = new Set(shown.map(this.name));
    for (const [name, row] of this.rows) {
      if (names.has(name)) continue;
      row.remove();
      this.rows.delete(name);
    }
    let before = this.above;
    for (const item of shown) {
      const name = this.name(item);
      let row = this.rows.get(name);
      if (row === undefined) {
        row = this.make(item);
        this.rows.set(name, row);
      }
      if (before.nextSibling !== row) before.after(row);
      before = row;
      this.fill(row, item);
    }
    this.above.style.height = `${first * this.height}px`;
    this.below.style.height = `${Math.max(0, this.items.length - first - shown.length) * this.height}px`;
    const measured = shown.length ? this.rows.get(this.name(shown[0])).offsetHeight : 0;
    if (measured && Math.abs(measured - this.height) > 1) {
      this.height = measured;
      requestAnimationFrame(() => this.draw());
    }
  }

  // Scroll to an item by its place.
  reveal(place) {
    const top = this.body.getBoundingClientRect().top + place * this.height;
    if (top < 4 * this.height) scrollBy(0, top - 4 * this.height);
    else if (top > innerHeight - 3 * this.height) scrollBy(0, top - innerHeight + 3 * this.height);
    this.draw();
  }
}
