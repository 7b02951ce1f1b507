"use strict";
document.documentElement.classList.add("js");
for (const section of document.querySelectorAll("section")) {
  if (section.querySelector("polyline, .dot")) section.classList.add("lined");
}

// Tables: search, filter, sort.
for (const scroll of document.querySelectorAll(".scroll")) {
  const body = scroll.querySelector("tbody"), rows = [...body.rows], section = scroll.parentElement;
  const search = section.querySelector("input[type=search]"), only = section.querySelector(".only");
  const count = section.querySelector(".count");
  const words = rows.map(row => [...row.cells].map(cell => cell.textContent).join(" ").toLowerCase());
  const show = () => {
    const wanted = search ? search.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
    let shown = 0;
    rows.forEach((row, i) => {
      const fits = wanted.every(word => words[i].includes(word)) && !(only && only.checked && !row.classList.contains("changed"));
      row.hidden = !fits;
      shown += fits;
    });
    if (count) count.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  };
  if (search) search.addEventListener("input", show);
  if (only) only.addEventListener("change", show);
  show();
  const heads = [...scroll.querySelectorAll("th")];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const numeric = head.classList.contains("n"), now = head.getAttribute("aria-sort");
    const up = now ? now === "descending" : !numeric;
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = row => row.cells[column].dataset.v === undefined ? (numeric ? -Infinity : row.cells[column].textContent) : Number(row.cells[column].dataset.v);
    const order = rows.map((row, i) => [value(row), i, row]);
    order.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (up ? 1 : -1) || a[1] - b[1]);
    body.append(...order.map(entry => entry[2]));
  }));
}

// Copying: a table's shown rows, tab separated, or the command that repeats the run.
const copier = (name, text) => {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = name;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
    } catch {  // pages from the disk may not be allowed to
      const area = document.createElement("textarea");
      area.value = text();
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = name; }, 1500);
  });
  return button;
};
for (const tools of document.querySelectorAll(".tools")) {
  const table = tools.parentElement.querySelector("table");
  const line = row => [...row.cells].map(cell => cell.dataset.v || cell.textContent).join("\t");
  tools.append(copier("copy rows", () => [...table.rows].filter(row => !row.hidden).map(line).join("\n")));
}
for (const cell of document.querySelectorAll("td.command")) {
  const command = cell.textContent;
  cell.append(" ", copier("copy", () => command));
}

// Pictures: what is under the pointer, and the same tensor in the other map.
const tip = document.createElement("div");
tip.id = "tip";
document.body.append(tip);
const titles = new WeakMap(), named = new Map();
for (const title of document.querySelectorAll(".plot title")) {
  const mark = title.parentElement, name = title.textContent;
  titles.set(mark, name);
  mark.setAttribute("aria-label", name);
  title.remove();
  if (mark.tagName === "rect") {
    const key = name.slice(0, name.lastIndexOf(": "));
    named.set(key, [...(named.get(key) || []), mark]);
    mark.dataset.key = key;
  }
}
let lit = [];
document.addEventListener("pointermove", event => {
  const text = titles.get(event.target);
  lit.forEach(mark => mark.classList.remove("same"));
  lit = text && event.target.dataset.key !== undefined ? named.get(event.target.dataset.key) : [];
  lit.forEach(mark => mark.classList.add("same"));
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18}px`;
});

// Zoom along x: maps that stand side by side move together.
const ticks = (low, high) => {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(k => k * power >= rough * (1 - 1e-9)) * power, found = [];
  for (let k = Math.ceil(low / step - 1e-9); k <= Math.floor(high / step + 1e-9); k++) found.push(k * step);
  return found;
};
for (const frame of document.querySelectorAll(".frame")) {
  const plot = frame.querySelector(".plot"), side = frame.closest(".side");
  const together = side ? [...side.querySelectorAll(".frame")] : [frame];
  const set = (left, width) => {
    width = Math.min(1000, Math.max(2, width));
    left = Math.min(1000 - width, Math.max(0, left));
    for (const each of together) {
      each.querySelector(".plot").setAttribute("viewBox", `${left} 0 ${width} 300`);
      const x0 = Number(each.dataset.x0), x1 = Number(each.dataset.x1);
      const low = x0 + (x1 - x0) * left / 1000, high = low + (x1 - x0) * width / 1000;
      each.querySelector(".x").replaceChildren(...ticks(low, high).map(at => {
        const tick = document.createElement("i");
        tick.style.left = `${(100 * (at - low) / (high - low)).toFixed(2)}%`;
        tick.textContent = Number(at.toPrecision(6)).toLocaleString("en");
        return tick;
      }));
    }
  };
  const box = () => plot.viewBox.baseVal;
  const by = (factor, at = 0.5) => set(box().x + box().width * at * (1 - factor), box().width * factor);
  const zoom = document.createElement("div");
  zoom.className = "zoom";
  for (const [text, name, act] of [["+", "zoom in", () => by(0.5)], ["−", "zoom out", () => by(2)], ["all", "show all", () => set(0, 1000)]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.title = name;
    button.addEventListener("click", act);
    zoom.append(button);
  }
  frame.append(zoom);
  plot.addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    by(event.deltaY < 0 ? 0.8 : 1.25, event.offsetX / plot.clientWidth);
  }, {passive: false});
  let from = null;
  plot.addEventListener("pointerdown", event => { from = [event.clientX, box().x]; });
  plot.addEventListener("pointermove", event => {
    if (from && event.buttons) set(from[1] - (event.clientX - from[0]) / plot.clientWidth * box().width, box().width);
    else from = null;
  });
}
