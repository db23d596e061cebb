"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (q, at = document) => at.querySelector(q), $$ = (q, at = document) => [...at.querySelectorAll(q)];
const rows = data.rows.map((d, i) => ({ d, i, tr: document.getElementById("c" + i) }));
for (const r of rows) {
  r.button = $("button", r.tr);
  r.text = (d => d.name + " " + d.measure)(r.d).toLowerCase();
}

// HTML and SVG elements. Whatever comes from a report is text or a number, never markup.
const make = (ns, name, attrs, kids) => {
  const e = ns ? document.createElementNS(ns, name) : document.createElement(name);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  for (const kid of kids) if (kid != null) e.append(kid);
  return e;
};
const h = (name, attrs, ...kids) => make(null, name, attrs, kids);
const s = (name, attrs, ...kids) => make("http://www.w3.org/2000/svg", name, attrs, kids);

// Numbers, as package render writes them.
const digits = (x, n) => (Math.abs(x) < 0.5 * 10 ** -n ? 0 : x).toLocaleString("en-US", { minimumFractionDigits: n, maximumFractionDigits: n });
const plain = x => Math.abs(x) >= 1e15 ? x.toPrecision(4) : x.toLocaleString("en-US", { maximumFractionDigits: Math.abs(x) < 1 ? 3 : Math.abs(x) < 10 ? 2 : 1 });
const scales = { ns: [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]], us: [["µs", 1], ["ms", 1e3], ["s", 1e6]] };
const scaleOf = (unit, x) => { // the unit in which a number of this size is told
  const all = scales[unit];
  if (!all) return [["insns", "bytes", "states", "count", "declared"].includes(unit) ? "" : unit, 1];
  return all.filter(([, f]) => Math.abs(x) / f >= 0.99995).pop() || all[0];
};
const quantity = (x, unit) => {
  const [name, f] = scaleOf(unit, x), v = x / f;
  return (scales[unit] ? digits(v, Math.abs(v) < 10 ? 2 : 1) : plain(v)) + (name && " " + name);
};
const percent = x => (x > 0 ? "+" : "") + digits(100 * x, 1) + "%";

// ticks are round numbers between low and high.
const ticks = (low, high, most) => {
  const raw = (high - low) / most, p = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(k => k * p).find(k => k >= raw) || raw;
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9 && out.length < 50; k++) out.push(k * step);
  return [out, Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / p === 2.5 ? 1 : 0))];
};
const scale = (low, high, from, to) => x => from + (x - low) / (high - low || 1) * (to - from);
const extent = (low, high) => { // with a margin around it
  const room = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
  return [low - room, high + room];
};
const median = x => {
  const y = [...x].sort((a, b) => a - b), n = y.length >> 1;
  return y.length % 2 ? y[n] : (y[n - 1] + y[n]) / 2;
};

// figure is a plot with a title, that tells what is near the pointer.
function figure(title, note, width, height, label, draw) {
  const out = h("output", {}), svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  const points = [];
  draw(svg, (x, y, text) => points.push([x, y, text]));
  const cursor = s("circle", { r: 5, class: "cursor" });
  svg.append(cursor);
  const leave = () => { cursor.style.visibility = "hidden"; out.textContent = ""; };
  svg.addEventListener("pointermove", e => {
    const box = svg.getBoundingClientRect(), px = (e.clientX - box.left) * width / box.width, py = (e.clientY - box.top) * height / box.height;
    let best = null, least = 900;
    for (const p of points) {
      const d = (p[0] - px) ** 2 + (p[1] - py) ** 2;
      if (d < least) [best, least] = [p, d];
    }
    if (!best) return leave();
    cursor.setAttribute("cx", best[0]); cursor.setAttribute("cy", best[1]);
    cursor.style.visibility = "visible";
    out.textContent = best[2];
  });
  svg.addEventListener("pointerleave", leave);
  return h("figure", {}, h("figcaption", {}, h("span", {}, h("b", {}, title), note ? " " + note : ""), out), svg);
}

function xAxis(svg, at, low, high, x, format) {
  const [values, n] = ticks(low, high, Math.max(2, Math.min(6, (x(high) - x(low)) / 80)));
  svg.append(s("path", { class: "axis", d: `M${x(low)} ${at}H${x(high)}` }));
  for (const v of values) svg.append(s("path", { class: "axis", d: `M${x(v)} ${at}v4` }), s("text", { x: x(v), y: at + 16, "text-anchor": "middle" }, format(v, n)));
}
function yAxis(svg, from, to, low, high, y, format) {
  const [values, n] = ticks(low, high, 4);
  for (const v of values) svg.append(s("path", { class: "axis", d: `M${from} ${y(v)}H${to}` }), s("text", { x: from - 6, y: y(v) + 4, "text-anchor": "end" }, format(v, n)));
}
const inUnit = (unit, low, high) => { // how the numbers of an axis are told
  const [name, f] = scaleOf(unit, Math.max(Math.abs(low), Math.abs(high)));
  return [name, f, (v, n) => digits(v / f, Math.max(0, n + Math.round(Math.log10(f))))];
};
const clamp = (v, low, high) => Math.max(low, Math.min(high, v));
const dots = (points, side) => s("path", { class: "dots " + side, d: points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("") });
const sides = d => [["base", d.base, d.baseRounds, d.baseDensity], ["head", d.head, d.headRounds, d.headDensity]].filter(x => x[1] && x[1].length);

// samples are both sides' values: the density above, every value below.
function samples(d, width) {
  const [low, high] = d.range, row = 74, all = sides(d), height = row * all.length + 30, [name, , format] = inUnit(d.unit, low, high);
  const out = all.reduce((n, a) => n + a[1].filter(v => v < low || v > high).length, 0);
  return figure("Samples", (name && "in " + name) + (out ? `, ${out} farther out than the edge` : ""), width, height, `Samples of ${all.map(a => a[0]).join(" and ")}`, (svg, hit) => {
    const ends = all.flatMap(a => a[3] ? a[3].range : []), [l, r] = ends.length ? [Math.min(low, ...ends), Math.max(high, ...ends)] : extent(low, high), x = scale(l, r, 46, width - 10);
    all.forEach(([side, values, rounds, density], k) => {
      const ground = k * row + 46;
      svg.append(s("text", { x: 4, y: ground, class: "side " + side }, side));
      if (density) {
        const last = density.values.length - 1, px = scale(0, last, x(density.range[0]), x(density.range[1]));
        svg.append(s("path", { class: "ridge " + side, d: `M${px(0).toFixed(1)} ${ground}` + density.values.map((v, i) => `L${px(i).toFixed(1)} ${(ground - 38 * v / 99).toFixed(1)}`).join("") + `L${px(last).toFixed(1)} ${ground}Z` }));
      }
      const at = values.map((v, i) => [x(clamp(v, low, high)), ground + 8 + (i * 0.618034 % 1) * 14]);
      svg.append(dots(at, side));
      at.forEach(([px, py], i) => hit(px, py, `${side}, round ${rounds ? rounds[i] : i}: ${quantity(values[i], d.unit)}`));
      const m = median(values), mx = x(clamp(m, low, high));
      svg.append(s("path", { class: "med " + side, d: `M${mx} ${ground - 40}V${ground + 24}` }));
    });
    xAxis(svg, height - 24, l, r, x, format);
  });
}

// inOrder are the rounds as they were measured; a line joins the pair of a round.
function inOrder(d, width) {
  const height = 178, [low, high] = d.range, [l, r] = extent(low, high), [name, , format] = inUnit(d.unit, l, r);
  return figure("Rounds in order", name && "in " + name, width, height, "Values of base and head by round", (svg, hit) => {
    const all = sides(d), last = Math.max(...all.map(([, v, rounds]) => rounds ? rounds[rounds.length - 1] : v.length - 1), 1);
    const x = scale(0, last, 52, width - 10), y = scale(l, r, height - 24, 8);
    yAxis(svg, 48, width - 6, l, r, y, format);
    const places = all.map(([, values, rounds]) => values.map((v, i) => [x(rounds ? rounds[i] : i), y(clamp(v, low, high)), rounds ? rounds[i] : i]));
    if (d.paired && all.length === 2) {
      const other = new Map(places[1].map(p => [p[2], p]));
      svg.append(s("path", { class: "pairs", d: places[0].map(p => other.has(p[2]) ? `M${p[0].toFixed(1)} ${p[1].toFixed(1)}V${other.get(p[2])[1].toFixed(1)}` : "").join("") }));
    }
    all.forEach(([side, values], k) => {
      svg.append(dots(places[k], side));
      places[k].forEach(([px, py, n], i) => hit(px, py, `round ${n}, ${side}: ${quantity(values[i], d.unit)}`));
    });
    svg.append(s("text", { x: 52, y: height - 6 }, "0"), s("text", { x: width - 10, y: height - 6, "text-anchor": "end" }, "round " + last));
  });
}

// interval is the change with its interval against what the policy allows.
function interval(d, width) {
  const height = 86, c = d.change, [il, ih] = d.interval || [c, c], bad = d.margin == null ? null : d.bad * d.margin;
  let low = Math.min(0, il, c, bad ?? 0), high = Math.max(0, ih, c, bad ?? 0);
  const room = (high - low) * 0.12 || 0.01;
  low -= room; high += room;
  const text = d.interval ? `${percent(il)} to ${percent(ih)}` + (d.level ? ` (${d.level})` : "") : percent(c);
  return figure(d.interval ? "Interval against the limit" : "Change against the limit", text, width, height, `The change is ${percent(c)}, ${text}`, (svg, hit) => {
    const x = scale(low, high, 10, width - 10), at = 32;
    if (bad != null) {
      const from = d.bad > 0 ? x(bad) : x(low), to = d.bad > 0 ? x(high) : x(bad);
      const right = to - from > 90 === d.bad > 0; // its name stands beyond it, where there is room
      svg.append(s("rect", { class: "beyond", x: from, y: 6, width: Math.max(0, to - from), height: 50 }), s("path", { class: "limit", d: `M${x(bad)} 6V56` }),
        s("text", { x: x(bad) + (right ? 4 : -4), y: 16, "text-anchor": right ? "start" : "end" }, "limit " + percent(bad)));
    }
    svg.append(s("path", { class: "zero", d: `M${x(0)} 6V56` }), s("path", { class: "span", d: `M${x(il)} ${at}H${x(ih)}` }), s("circle", { class: "est", cx: x(c), cy: at, r: 6 }));
    hit(x(c), at, percent(c)); hit(x(il), at, percent(il)); hit(x(ih), at, percent(ih));
    xAxis(svg, 58, low, high, x, (v, n) => digits(100 * v, Math.max(0, n - 2)) + "%");
  });
}

// history is how the medians of stored runs went; this run's is the last.
function past(d, width) {
  const g = d.history, runs = data.pasts[g.past], height = 190, values = g.values.concat(d.headValue == null ? [] : [d.headValue]);
  const edges = [g.lower, g.upper].filter(v => v != null);
  const [l, r] = extent(Math.min(...values, ...edges), Math.max(...values, ...edges)), [name, , format] = inUnit(d.unit, l, r);
  const note = `${g.values.length} stored runs` + (g.branch ? " of " + g.branch : "") + (name && ", in " + name);
  return figure("History", note, width, height, `Medians of ${g.values.length} stored runs`, (svg, hit) => {
    const x = scale(0, Math.max(values.length - 1, 1), 54, width - 12), y = scale(l, r, height - 24, 8);
    yAxis(svg, 48, width - 6, l, r, y, format);
    for (const v of edges) svg.append(s("path", { class: "limit", d: `M48 ${y(v)}H${width - 6}` }));
    let from = 0;
    for (const c of [...g.changes, { at: g.values.length }]) {
      const part = g.values.slice(from, c.at);
      if (part.length) svg.append(s("path", { class: "step", d: `M${x(from) - 3} ${y(median(part))}H${x(c.at - 1) + 3}` }));
      from = c.at;
    }
    for (const c of g.changes) {
      const at = (x(c.at - 1) + x(c.at)) / 2;
      svg.append(s("path", { class: "cp " + (c.worse ? "bad" : "good"), d: `M${at} 8V${height - 24}` }));
      hit(at, y(g.values[c.at]), c.text);
    }
    svg.append(s("path", { class: "trace base", d: "M" + g.values.map((v, i) => `${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("L") }), dots(g.values.map((v, i) => [x(i), y(v)]), "base"));
    g.values.forEach((v, i) => hit(x(i), y(v), `${runs[i].commit} ${runs[i].day}: ${quantity(v, d.unit)}`));
    if (d.headValue != null) {
      const p = [x(values.length - 1), y(d.headValue)];
      svg.append(dots([p, p], "head"));
      hit(...p, `this run: ${quantity(d.headValue, d.unit)}`);
    }
    svg.append(s("text", { x: 54, y: height - 6 }, runs[0].day), s("text", { x: width - 10, y: height - 6, "text-anchor": "end" }, d.headValue == null ? runs[runs.length - 1].day : "this run"));
  });
}

// source are the lines of head that execute other instructions than base, or take longer.
function source(d) {
  const most = Math.max(...d.lines.map(l => Math.abs(l.more)), 1e-9), more = v => (v > 0 ? "+" : "") + (d.timed ? quantity(v, "ns") : plain(v));
  const [title, note, column] = d.timed ? ["Lines that take more or less time", "in one run, from samples", "time"] : ["Lines that execute more or less", "in one run, on average over the packets", "instructions decided"];
  return h("figure", { class: "wide" }, h("figcaption", {}, h("span", {}, h("b", {}, title), " " + note)),
    h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "source" },
      h("thead", {}, h("tr", {}, ...["line", "source", "runs, base", "runs, head", column, ""].map((t, i) => h("th", i > 1 && i < 5 ? { class: "n" } : {}, t)))),
      h("tbody", {}, ...d.lines.map(l => h("tr", {},
        h("td", { class: "src" }, l.at), h("td", { class: "code" + (l.fresh ? " new" : "") }, l.text),
        h("td", { class: "n" }, l.fresh ? "not there" : plain(l.was)), h("td", { class: "n" }, plain(l.is)),
        h("td", { class: "n" }, more(l.more) + (l.share ? `, ${digits(100 * l.share, 0)}% of head's` : "")),
        h("td", {}, s("svg", { width: 84, height: 9, "aria-hidden": "true" }, s("rect", { class: "heat" + (l.more < 0 ? " less" : ""), rx: 2, height: 9, width: Math.max(1, 80 * Math.abs(l.more) / most) })))))))));
}

// profile are the places to which profiles give more of head than of base.
function profile(d) {
  const most = Math.max(...d.sites.map(l => Math.abs(l.is - l.was)), 1e-9);
  return h("figure", { class: "wide" }, h("figcaption", {}, h("span", {}, h("b", {}, "Where profiles find more or less"), " callers to the right")),
    h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "source" },
      h("thead", {}, h("tr", {}, ...["line", "source", "functions", "base", "head", ""].map((t, i) => h("th", i > 2 && i < 5 ? { class: "n" } : {}, t)))),
      h("tbody", {}, ...d.sites.map(l => h("tr", {},
        h("td", { class: "src" }, l.at), h("td", { class: "code" }, l.text), h("td", { class: "who" }, l.stack.join(" ← ")),
        h("td", { class: "n" }, l.was ? quantity(l.was, d.unit) : "none"), h("td", { class: "n" }, quantity(l.is, d.unit)),
        h("td", {}, s("svg", { width: 84, height: 9, "aria-hidden": "true" }, s("rect", { class: "heat" + (l.is < l.was ? " less" : ""), rx: 2, height: 9, width: Math.max(1, 80 * Math.abs(l.is - l.was) / most) })))))))));
}

// panel is all that is known of a row.
function panel(r) {
  const d = r.d, box = h("div", { class: "panel " + r.tr.classList[0] });
  const inner = (r.tr.parentNode.clientWidth || innerWidth) - (innerWidth > 860 ? 32 : 20);
  const width = Math.max(240, Math.round(innerWidth > 860 ? (inner - 26) / 2 : inner));
  box.append(h("p", { class: "say" }, d.say));
  if (d.warn) for (const w of d.warn) box.append(h("p", { class: "wide warn" }, "! " + w));
  if (d.range) box.append(samples(d, width), inOrder(d, width));
  if (d.change != null && (d.interval || d.margin != null)) box.append(interval(d, width));
  if (d.history && d.history.values.length > 1) box.append(past(d, width));
  box.append(h("dl", { class: "facts" + (box.querySelectorAll("figure").length % 2 ? "" : " wide") }, ...d.facts.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])));
  if (d.lines) box.append(source(d));
  if (d.sites) box.append(profile(d));
  return box;
}

function open(r, on = !r.detail) {
  if (!!r.detail === on) return;
  r.button.setAttribute("aria-expanded", on);
  r.tr.classList.toggle("open", on);
  if (!on) {
    r.detail.remove();
    r.detail = null;
    return;
  }
  r.detail = h("tr", { class: "detail" }, h("td", { colspan: 8 }, panel(r)));
  r.tr.after(r.detail);
}
let lastWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === lastWidth) return;
  lastWidth = innerWidth;
  for (const r of rows) if (r.detail) r.detail.firstChild.replaceChildren(panel(r));
});

// What is shown: by name, by kinds of verdict, by measure.
const find = $("#find"), measure = $("#measure"), chips = $$(".chip");
function filter() {
  if (!find) return;
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean), kinds = new Set(chips.filter(c => c.getAttribute("aria-pressed") === "true").map(c => c.dataset.kind));
  let n = 0;
  for (const r of rows) {
    const on = kinds.has(r.d.kind) && (!measure.value || r.d.measure === measure.value) && words.every(w => r.text.includes(w));
    r.tr.hidden = !on;
    if (r.detail) r.detail.hidden = !on;
    n += on;
  }
  $("#count").textContent = `${n} of ${rows.length}`;
}
for (const c of chips) c.addEventListener("click", () => {
  c.setAttribute("aria-pressed", c.getAttribute("aria-pressed") !== "true");
  filter();
});
find?.addEventListener("input", filter);
measure?.addEventListener("input", filter);
$("#tools")?.addEventListener("submit", e => e.preventDefault());

// Order: as the report has it, or by a column.
const keys = {
  name: r => r.d.name, measure: r => r.d.measure, base: r => r.d.baseValue, head: r => r.d.headValue, change: r => r.d.change, order: r => r.i,
};
for (const b of $$("[data-by]")) b.addEventListener("click", () => {
  const th = b.parentNode, body = th.closest("table").tBodies[0], up = th.getAttribute("aria-sort") !== "ascending", key = keys[b.dataset.by];
  for (const other of $$("th", th.parentNode)) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  const mine = rows.filter(r => r.tr.parentNode === body);
  mine.sort((a, b) => {
    const x = key(a), y = key(b);
    if (x == null || y == null) return (x == null) - (y == null) || a.i - b.i;
    return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1) || a.i - b.i;
  });
  for (const r of mine) {
    body.append(r.tr);
    if (r.detail) body.append(r.detail);
  }
});

// A row opens by pointer, by its button, and by its address.
for (const body of $$(".rows > tbody")) body.addEventListener("click", e => {
  const tr = e.target.closest(".rows > tbody > tr:not(.detail)");
  if (!tr || !getSelection().isCollapsed) return;
  const r = rows[+tr.id.slice(1)];
  open(r);
  address(r.detail ? "#" + tr.id : " ");
});
function address(hash) {
  try { history.replaceState(null, "", hash === " " ? location.pathname + location.search : hash); } catch { /* a page in a frame may have no address */ }
}
function go() {
  const r = /^#c\d+$/.test(location.hash) && rows[+location.hash.slice(2)];
  if (!r) return;
  if (r.tr.hidden) {
    for (const c of chips) if (c.dataset.kind === r.d.kind) c.setAttribute("aria-pressed", "true");
    filter();
  }
  open(r, true);
  r.tr.scrollIntoView();
}
addEventListener("hashchange", go);

// Keys.
const themes = ["", "light", "dark"], root = document.documentElement;
const store = (k, v) => { try { return v == null ? localStorage.getItem(k) : localStorage.setItem(k, v); } catch { return null; } };
function theme(name) {
  if (name) root.dataset.theme = name; else delete root.dataset.theme;
  $("#theme").textContent = name || "auto";
  store("ebpf-bench-theme", name);
}
const nextTheme = () => theme(themes[(themes.indexOf(root.dataset.theme || "") + 1) % 3]);
$("#theme").addEventListener("click", nextTheme);
theme(themes.includes(store("ebpf-bench-theme")) ? store("ebpf-bench-theme") : "");
function move(by) {
  const shown = $$(".rows > tbody > tr:not(.detail)").filter(tr => !tr.hidden), at = shown.indexOf(document.activeElement?.closest?.(".rows > tbody > tr:not(.detail)"));
  const to = shown[at < 0 ? (by > 0 ? 0 : shown.length - 1) : clamp(at + by, 0, shown.length - 1)];
  if (!to) return;
  const b = $("button", to);
  b.focus({ preventScroll: true });
  to.scrollIntoView({ block: "nearest" });
}
addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "Escape" && find) {
    find.value = "";
    find.blur();
    return filter();
  }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
    if (e.key === "ArrowDown" && e.target === find) { e.preventDefault(); move(1); }
    return;
  }
  const act = { j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), "/": () => find?.focus(), t: nextTheme }[e.key];
  if (!act || e.key.startsWith("Arrow") && !document.activeElement?.closest?.(".rows")) return;
  e.preventDefault();
  act();
});

filter();
go();
})();
