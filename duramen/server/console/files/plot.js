// Lines over time, as SVG. A value of null is a gap: no line goes over what was not observed.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 240;

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// One line with the area below it, from 0 to the largest value. `label`: what it shows, for who cannot see it.
export class Plot {
  constructor(height, label) {
    this.height = height;
    this.values = [];
    this.node = element("svg", {
      viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", class: "plot", role: "img", "aria-label": label,
    });
    this.area = element("path", { class: "area" });
    this.line = element("path", { class: "line", "vector-effect": "non-scaling-stroke" });
    this.marks = element("path", { class: "marks", "vector-effect": "non-scaling-stroke" });
    this.events = element("path", { class: "events", "vector-effect": "non-scaling-stroke" });
    this.node.append(this.events, this.area, this.line, this.marks);
  }

  // `most`: what the top is at least, so that noise near zero does not look like a storm.
  show(values, most = 0) {
    this.values = values;
    this.largest = values.reduce((max, value) => (value !== null && value > max ? value : max), most);
    const step = WIDTH / Math.max(1, values.length - 1);
    const y = (value) => (this.height - 1 - (value / (this.largest || 1)) * (this.height - 3)).toFixed(1);
    let line = "";
    let area = "";
    let marks = "";
    for (const [begin, end] of runs(values)) {
      const points = [];
      for (let at = begin; at < end; at += 1) points.push(`${(at * step).toFixed(1)} ${y(values[at])}`);
      if (points.length === 1) {
        marks += `M${points[0]}h0.01`;
        continue;
      }
      line += `M${points.join("L")}`;
      area += `M${(begin * step).toFixed(1)} ${this.height}L${points.join("L")}L${((end - 1) * step).toFixed(1)} ${this.height}Z`;
    }
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
    this.marks.setAttribute("d", marks);
  }

  // Upright lines where something happened, at shares (0 to 1) of the width.
  happened(shares) {
    const places = [...new Set(shares.map((share) => (share * WIDTH).toFixed(1)))];
    this.events.setAttribute("d", places.map((x) => `M${x} 0V${this.height}`).join(""));
  }

  // The place of the value at a share (0 to 1) of the width.
  at(share) {
    return Math.min(this.values.length - 1, Math.max(0, Math.round(share * (this.values.length - 1))));
  }
}

// Where values are known: first place, and the one behind the last.
function runs(values) {
  const found = [];
  let begin = -1;
  for (let at = 0; at <= values.length; at += 1) {
    const known = at < values.length && values[at] !== null;
    if (known && begin < 0) begin = at;
    if (!known && begin >= 0) {
      found.push([begin, at]);
      begin = -1;
    }
  }
  return found;
}
