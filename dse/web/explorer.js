"use strict";
// Draws the page from the data embedded in it. Names of models and layers only ever become text nodes.
const data = JSON.parse(document.getElementById("explorer-data").textContent);
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
const COLOURS = { array: "#2e9e5b", alu: "#3b82c4", bus: "#e0a21b" };
const byId = (id) => document.getElementById(id);
const number = (v) => v === undefined || v === null ? "" : Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en")
  : Number(v.toPrecision(4)).toString();
const percent = (v) => (v >= 0 ? "+" : "") + (100 * v).toFixed(1) + " %";

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") made.addEventListener("click", value); else made.setAttribute(name, value);
  }
  made.append(...children.map((c) => (c instanceof Node ? c : document.createTextNode(String(c)))));
  return made;
}

// rows: arrays of text, numbers, nodes or {value, text, class}
function table(head, rows, texts = []) {
  const body = element("tbody");
  const fill = (list) => body.replaceChildren(...list.map((row) => {
    const cells = row.map((cell, k) => {
      const shown = cell !== null && typeof cell === "object" && !(cell instanceof Node) ? cell : { text: cell };
      return element("td", { class: [shown.class || "", texts.includes(k) ? "text" : ""].join(" ") },
        shown.text === undefined || shown.text === null ? "" : shown.text instanceof Node ? shown.text
          : typeof shown.text === "number" ? number(shown.text) : shown.text);
    });
    return element("tr", row.attributes || {}, ...cells);
  }));
  const key = (cell) => {
    const value = cell !== null && typeof cell === "object" && !(cell instanceof Node) ? cell.value ?? cell.text : cell;
    return typeof value === "number" ? value : value instanceof Node ? value.textContent : value ?? "";
  };
  let order = 0;
  const titles = head.map((title, k) => element("th", {
    class: "sortable" + (texts.includes(k) ? " text" : ""), title: "sort",
    onclick: () => {
      order = order === k + 1 ? -(k + 1) : k + 1;
      const sign = Math.sign(order);
      const compare = (a, b) => a === b ? 0 : a === "" ? 1 : b === "" ? -1 : (a < b ? -sign : sign);
      fill([...rows].sort((a, b) => compare(key(a[k]), key(b[k]))));
    },
  }, title));
  fill(rows);
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...titles)), body));
}

const unit = (metric) => data.metrics[metric].unit;
const label = (metric) => `${metric} (${unit(metric)})`;
const points = [
  ...data.rows.map((r) => ({ ...r, kind: "front" })),
  ...data.others.map((r) => ({ ...r, kind: r.reason ? "left out" : "others" })),
];
const metrics = Object.keys(data.metrics).filter((m) => points.some((p) => p.metrics[m] !== undefined));
const objectives = Object.keys(data.head.objectives);
const parameters = Object.keys(data.head.space);
const wanted = {}; // parameter -> values that are shown
let chosen = data.rows.length ? data.rows[0].trial : null;

const visible = (p) => parameters.every((name) => wanted[name].has(String(p.parameters[name])));

function select(id, title, options, value) {
  const box = element("select", { id }, ...options.map((o) => element("option", { value: o }, o)));
  box.value = value;
  box.addEventListener("change", draw);
  return element("label", {}, title + " ", box);
}

function buildControls() {
  const second = objectives[1] || metrics.find((m) => m !== objectives[0]);
  byId("controls").append(
    select("axis-x", "across", metrics, second), select("axis-y", "up", metrics, objectives[0]),
    select("colour", "colour", ["kind", ...metrics, ...parameters], "kind"),
    ...["log x", "log y", "left out"].map((name) => {
      const box = element("input", { type: "checkbox", id: "show-" + name.replace(" ", "-") });
      box.addEventListener("change", draw);
      return element("label", {}, box, " " + name);
    }),
    element("button", { onclick: () => { resetFilters(); draw(); } }, "show all values"),
  );
  for (const name of parameters) {
    wanted[name] = new Set(data.head.space[name].map(String));
    const boxes = data.head.space[name].map(String).map((value) => {
      const box = element("input", { type: "checkbox", "data-parameter": name, "data-value": value });
      box.checked = true;
      box.addEventListener("change", () => {
        if (box.checked) wanted[name].add(value); else wanted[name].delete(value);
        draw();
      });
      return element("label", {}, box, " " + value);
    });
    byId("filters").append(element("span", {}, name), element("span", {}, ...boxes));
  }
}

function resetFilters() {
  for (const box of byId("filters").querySelectorAll("input")) {
    box.checked = true;
    wanted[box.dataset.parameter].add(box.dataset.value);
  }
}

const describe = (p) => [`trial ${p.trial} (${p.fidelity})`, ...metrics.filter((m) => p.metrics[m] !== undefined)
  .map((m) => `${m} ${number(p.metrics[m])} ${unit(m)}`),
...parameters.map((n) => `${n} ${p.parameters[n]}`), p.reason || ""].filter(Boolean).join("<br>")
  .replaceAll("&", "&amp;");

function draw() {
  const [x, y, colour] = ["axis-x", "axis-y", "colour"].map((id) => byId(id).value);
  const shown = points.filter((p) => visible(p) && p.metrics[x] !== undefined && p.metrics[y] !== undefined
    && (p.kind !== "left out" || byId("show-left-out").checked));
  const looks = {
    "left out": { color: "#c9ced6", size: 5, symbol: "x" }, others: { color: "#7f93ad", size: 6, symbol: "circle" },
    front: { color: "#c0392b", size: 10, symbol: "circle" },
  };
  const scaled = colour !== "kind";
  const value = (p) => Number(p.metrics[colour] ?? p.parameters[colour] ?? NaN);
  const all = shown.map(value).filter((v) => !Number.isNaN(v));
  const traces = Object.entries(looks).map(([kind, look], k) => {
    const members = shown.filter((p) => p.kind === kind);
    if (kind === "front") members.sort((a, b) => a.metrics[x] - b.metrics[x]);
    const marker = scaled ? {
      ...look, color: members.map(value), colorscale: "Viridis", cmin: Math.min(...all), cmax: Math.max(...all),
      showscale: k === 2, colorbar: { title: { text: colour } },
    } : look;
    return {
      type: "scatter", name: kind, mode: kind === "front" && objectives.includes(x) && objectives.includes(y)
        && objectives.length === 2 ? "lines+markers" : "markers",
      x: members.map((p) => p.metrics[x]), y: members.map((p) => p.metrics[y]), marker,
      line: { color: "#e3a59d", width: 1.5, shape: data.metrics[x].maximise ? "vh" : "hv" }, customdata: members.map((p) => p.trial),
      text: members.map(describe), hovertemplate: "%{text}<extra></extra>",
    };
  });
  const mark = points.find((p) => p.trial === chosen);
  if (mark && mark.metrics[x] !== undefined) {
    traces.push({
      type: "scatter", name: "chosen", mode: "markers", x: [mark.metrics[x]], y: [mark.metrics[y]], hoverinfo: "skip",
      marker: { size: 17, symbol: "circle-open", color: style("--ink"), line: { width: 2 } },
    });
  }
  const axis = (m, log) => ({ title: { text: label(m) }, type: byId(log).checked ? "log" : "linear", gridcolor: style("--line"), zeroline: false });
  Plotly.react("plot", traces, {
    xaxis: axis(x, "show-log-x"), yaxis: axis(y, "show-log-y"), margin: { l: 70, r: 20, t: 10, b: 50 }, hovermode: "closest",
    legend: { orientation: "h", y: 1.08 }, uirevision: x + y, paper_bgcolor: style("--paper"), plot_bgcolor: style("--paper"), font: { color: style("--ink") },
  }, { responsive: true, displaylogo: false, scrollZoom: true });
  byId("count").textContent = `${shown.length} of ${points.length} points shown`;
}

function drawFront() {
  const columns = [...new Set([...objectives, ...metrics])];
  const rows = data.rows.map((r) => {
    const cells = [{ text: String(r.trial), value: r.trial }, r.config.name, r.fidelity + (r.synthesis ? ", synthesised" : ""),
      ...columns.map((m) => r.metrics[m])];
    cells.attributes = { class: "pick" + (r.trial === chosen ? " chosen" : ""), "data-trial": r.trial };
    return cells;
  });
  const made = table(["trial", "config", "cycles by", ...columns.map(label)], rows, [1, 2]);
  made.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-trial]");
    if (row) choose(Number(row.dataset.trial));
  });
  byId("front").replaceChildren(made);
}

function choose(trial) {
  chosen = trial;
  draw();
  drawFront();
  detail(points.find((p) => p.trial === trial));
}

function layerTables(r) {
  return Object.entries(r.layers).flatMap(([network, layers]) => {
    const most = Math.max(...layers.map((l) => Math.max(l.array, l.alu, l.bus)), 1);
    const bounds = new Map(r.bounds[network].layers.map((l) => [l.layer, l.alone_cycles]));
    const bar = (l) => element("div", { class: "bar", title: `array ${l.array}, ALU ${l.alu}, bus ${l.bus} cycles` },
      ...[l.bound].map((b) => element("i", { style: `width:${100 * l[b] / most}%;background:${COLOURS[b]}` })));
    const busy = Object.entries(r.engines[network]).map(([e, c]) => `${e} ${percent(c / r.analytical_cycles[network]).slice(1)}`);
    const counts = ["array", "alu", "bus"].map((b) => `${b} ${layers.filter((l) => l.bound === b).length}`);
    const spilled = r.spilled[network] ? ` Through DRAM: ${r.spilled[network].join(", ")}.` : "";
    return [
      element("h3", {}, `${network}: ${number(r.cycles[network])} cycles (${r.fidelity})`),
      element("p", { class: "dim" }, `No schedule takes fewer than ${number(r.bounds[network].lower_bound_cycles)} cycles: `
        + `${(r.cycles[network] / r.bounds[network].lower_bound_cycles).toFixed(2)} times that. `
        + `Estimated ${number(r.analytical_cycles[network])} cycles; engines busy: ${busy.join(", ")}. `
        + `Layers bound by: ${counts.join(", ")}.${spilled} Array, ALU and bus cycles are those of the plan; the lower `
        + "bound of a layer is what it needs at least if it runs alone, as in the report of a run."),
      table(["layer", "bound by", "array cycles", "ALU cycles", "bus cycles", "lower bound", "the bound, to scale"],
        layers.map((l) => [l.layer, l.bound, l.array, l.alu, l.bus, bounds.get(l.layer) ?? "", { text: bar(l), value: l[l.bound] }]), [1]),
    ];
  });
}

function whatIf(r) {
  const columns = metrics.filter((m) => r.what_if.some((w) => w.change && w.change[m] !== undefined));
  const cell = (w, m) => {
    if (!w.change || w.change[m] === undefined) return "";
    const gain = data.metrics[m].maximise ? w.change[m] : -w.change[m];
    const shown = w.change[m] === 0 ? "0" : ["latency", "throughput", "energy"].includes(m) && w.relative[m] !== undefined
      ? percent(w.relative[m]) : (w.change[m] > 0 ? "+" : "") + number(w.change[m]);
    return { text: shown, value: w.change[m], class: gain > 0 ? "good" : gain < 0 ? "bad" : "" };
  };
  const rows = r.what_if.map((w) => [w.parameter, `${w.from} → ${w.to}`, ...columns.map((m) => cell(w, m)),
    w.reason ? "cannot be: " + w.reason : w.over ? "too large: " + w.over : w.unseen ? "the latency model does not see it" : ""]);
  const first = objectives[0], { step, free } = r.advice;
  const changes = (e, some) => some.filter((m) => e.change[m]).map((m) => `${m} ${["latency", "throughput", "energy"].includes(m)
    ? percent(e.change[m] / r.metrics[m]) : (e.change[m] > 0 ? "+" : "") + number(e.change[m])}`).join(", ");
  const name = (e) => `${e.parameter} ${e.from} → ${e.to}`;
  const lines = [step ? `The step on this board that gains most in ${first}: ${name(step)} (${changes(step, columns)}).`
    : `No single step on this board gains in ${first}.`];
  if (free.length) lines.push(`At no loss by these models: ${free.map((e) => `${name(e)} (${changes(e, columns)})`).join("; ")}.`);
  return [
    element("h3", {}, "What if"), ...lines.map((line) => element("p", {}, line)),
    element("p", { class: "dim" }, "Every parameter doubled and halved, by the analytical models: change of each metric. "
      + "Green is better. Click a heading to sort."),
    table(["parameter", "from → to", ...columns, "why not"], rows, [columns.length + 2]),
  ];
}

function moduleTable(r) {
  const kinds = [...new Set(Object.values(r.modules).flatMap((m) => Object.keys(m)))];
  const total = (k) => Object.values(r.modules).reduce((sum, m) => sum + (m[k] || 0), 0);
  const rows = Object.entries(r.modules).map(([module, used]) => [module, ...kinds.map((k) => used[k] || "")]);
  rows.push(["all", ...kinds.map((k) => ({ text: total(k) }))]);
  if (data.head.limits) rows.push([`of ${data.head.board}`, ...kinds.map((k) => data.head.limits[k] ? percent(total(k) / data.head.limits[k]).slice(1) : "")]);
  if (r.synthesis) rows.push(["synthesis", ...kinds.map((k) => ({ text: r.synthesis[k] ?? r.synthesis[{ bram36: "bram" }[k]] ?? "" }))]);
  const errors = Object.entries(data.head.resource_error).map(([k, v]) => `${k} ${(100 * v).toFixed(0)} %`).join(", ");
  return [
    element("h3", {}, "Resources"),
    element("p", { class: "dim" }, `Formulas; largest error on Configs that their fit has not seen: ${errors}.`),
    table(["module", ...kinds], rows),
  ];
}

function energyTable(r) {
  const names = Object.keys(r.energy);
  const parts = [...new Set(names.flatMap((n) => Object.keys(r.energy[n])))];
  const sum = (n) => Object.values(r.energy[n]).reduce((a, b) => a + b, 0);
  const rows = parts.map((part) => [part, ...names.flatMap((n) => [r.energy[n][part], percent(r.energy[n][part] / sum(n)).slice(1)])]);
  rows.push(["all", ...names.flatMap((n) => [sum(n), ""])]);
  return [
    element("h3", {}, "Energy of an inference"),
    element("p", { class: "dim" }, `Microjoules, by published figures; expect a factor of ${data.head.energy.uncertainty} either way.`),
    table(["component", ...names.flatMap((n) => [n, "share"])], rows),
  ];
}

function detail(p) {
  const title = byId("detail-title");
  title.textContent = p ? `Trial ${p.trial}` + (p.config ? `: ${p.config.name}` : ` (${p.kind})`) : "No point chosen";
  if (!p) return;
  if (p.kind !== "front") {
    byId("detail").replaceChildren(
      element("p", {}, p.reason ? `Left out: ${p.reason}.` : "A point of the front is at least as good in every objective."),
      table(["parameter", "value"], Object.entries(p.parameters).map(([n, v]) => [n, String(v)])),
      table(["metric", "value"], metrics.filter((m) => p.metrics[m] !== undefined).map((m) => [label(m), p.metrics[m]])),
    );
    return;
  }
  const save = element("a", { download: `${p.config.name}-${p.trial}.toml`, href: "data:application/toml," + encodeURIComponent(p.toml) }, "save as .toml");
  const c = p.clock_model;
  const pace = element("p", {}, `Taken at ${p.config.clock_mhz} MHz; the clock model expects ${c.mhz} MHz (${c.low} to ${c.high}), `
    + `limited by ${c.path}. No place and route has confirmed it.`);
  byId("detail").replaceChildren(
    pace, ...whatIf(p), ...layerTables(p),
    element("div", { class: "columns" }, element("div", {}, ...moduleTable(p)), element("div", {}, ...energyTable(p)),
      element("div", {}, element("h3", {}, "Config"), element("p", {}, save), element("pre", {}, p.toml))),
  );
}

buildControls();
drawFront();
draw();
byId("plot").on("plotly_click", (event) => { if (event.points[0].customdata !== undefined) choose(event.points[0].customdata); });
detail(points.find((p) => p.trial === chosen));
