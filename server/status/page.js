// The page of a job: reads status.json once a second and shows it. What comes from the network is put into the page as
// text (textContent) and as numbers only.
"use strict";

const INTERVAL_MS = 1000, TIMEOUT_MS = 4000;
const SVG = "http://www.w3.org/2000/svg";
const at = (id) => document.getElementById(id);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// Formats of values; a value that is not known is a dash.
const known = (format) => (value) => (isNumber(value) ? format(value) : "–");
const count = known((n) => n.toLocaleString("en-US", { maximumFractionDigits: 0 }));
const speed = known((n) => n.toLocaleString("en-US", { maximumSignificantDigits: 3 }));
const fraction = known((n) => (n !== 0 && Math.abs(n) < 0.001 ? n.toExponential(2) : n.toPrecision(4)));
const percent = known((n) => `${(100 * n).toFixed(n < 0.0995 ? 1 : 0)} %`);
const ratio = known((n) => `${n.toPrecision(3)}x`);
const axis = known((n) => (n !== 0 && Math.abs(n) < 0.01 ? n.toExponential(0) : n.toPrecision(3)));
const bytes = known((n) => {
  const units = ["B", "KB", "MB", "GB"];
  let unit = 0;
  for (; n >= 1000 && unit < 3; ++unit) n /= 1000;
  return `${n.toFixed(unit === 0 || n >= 100 ? 0 : 1)} ${units[unit]}`;
});
const seconds = known((s) => {
  if (s < 0.001) return `${(1e6 * s).toFixed(0)} µs`;
  if (s < 1) return `${(1000 * s).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${String(Math.floor(s % 60)).padStart(2, "0")}s`;
  return `${Math.floor(s / 3600)}h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")}m`;
});

const STATE_CLASS = {
  training: "good", done: "good", present: "good", running: "good",
  waiting: "busy", joining: "busy", planning: "busy", gathering: "busy", returning: "busy", ending: "busy",
};
const classOfState = (state) => STATE_CLASS[state] || "bad";

// A column: its heading, a worker's (or shard's) text, and the class of the cell.
const WORKER_COLUMNS = [
  ["rank", (w) => String(w.rank)],
  ["host", (w) => String(w.host), () => "text host"],
  ["state", (w) => String(w.state), (w) => `text ${classOfState(w.state)}`],
  ["silent for", (w) => seconds(w.silent_s), (w) => (w.state === "silent" || w.state === "lost" ? "bad" : "")],
  ["step", (w) => count(w.step)],
  ["behind", (w) => count(w.lag_steps)],
  ["samples/s", (w) => speed(w.samples_per_s)],
  ["loss", (w) => fraction(w.loss)],
  ["computing", (w) => percent(w.computing)],
  ["coding", (w) => percent(w.coding)],
  ["waiting", (w) => percent(w.waiting)],
  ["up a step", (w) => bytes(w.up_bytes_per_step)],
  ["down a step", (w) => bytes(w.down_bytes_per_step)],
  ["round trip", (w) => seconds(w.round_trip_s)],
];
const SHARD_COLUMNS = [
  ["shard", (s) => String(s.shard)],
  ["host", (s) => String(s.host), () => "text host"],
  ["state", (s) => String(s.state), (s) => `text ${classOfState(s.state)}`],
  ["silent for", (s) => (s.shard === 0 ? "–" : seconds(s.silent_s))],
];

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Makes the number of children equal to `length`, and returns them.
function children(parent, tag, length) {
  while (parent.children.length > length) parent.lastElementChild.remove();
  while (parent.children.length < length) parent.append(document.createElement(tag));
  return parent.children;
}

function showTable(table, columns, rows) {
  const headings = children(table.tHead.rows[0], "th", columns.length);
  columns.forEach(([heading, , classOf], i) => {
    setText(headings[i], heading);
    headings[i].className = classOf && classOf({}).startsWith("text") ? "text" : "";
  });
  const bodyRows = children(table.tBodies[0], "tr", rows.length);
  rows.forEach((row, r) => {
    const cells = children(bodyRows[r], "td", columns.length);
    columns.forEach(([heading, text, classOf], c) => {
      setText(cells[c], text(row));
      cells[c].className = classOf ? classOf(row) : "";
      cells[c].dataset.heading = heading;
    });
  });
}

function showFigures(status) {
  const saved = status.checkpoints;
  const figures = [
    ["step", status.steps === null ? count(status.step) : `${count(status.step)} of ${count(status.steps)}`],
    ["time left", seconds(status.left_s)],
    ["training loss", fraction(status.loss)],
    ["test accuracy", isNumber(status.accuracy) ? `${(100 * status.accuracy).toFixed(2)} % at step ${count(status.tested_step)}` : "–"],
    ["samples/s", speed(status.samples_per_s)],
    ["steps/s", speed(status.steps_per_s)],
    ["smaller than fp32", `${ratio(status.up_ratio)} up, ${ratio(status.down_ratio)} down`],
    ["newest checkpoint", saved.step === null ? "–" : `step ${count(saved.step)}${isNumber(saved.age_s) ? `, ${seconds(saved.age_s)} ago` : ""}`],
  ];
  if (saved.failed > 0) figures.push(["checkpoints that failed", count(saved.failed)]);
  const boxes = children(at("figures"), "div", figures.length);
  figures.forEach(([name, text], i) => {
    if (boxes[i].children.length === 0) boxes[i].append(document.createElement("dt"), document.createElement("dd"));
    setText(boxes[i].children[0], name);
    setText(boxes[i].children[1], text);
  });
}

function svgElement(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}

// Loss on the left axis, from the smallest to the largest; accuracy on the right axis, from 0 to 1.
function showCurve(status) {
  const svg = at("curve"), width = svg.clientWidth || 600, height = svg.clientHeight || 200;
  const em = parseFloat(getComputedStyle(svg).fontSize) || 16;
  const left = 3.4 * em, right = width - 2.6 * em, top = 0.8 * em, bottom = height - 1.6 * em;
  const losses = status.history.losses, tests = status.history.tests;
  const steps = [...losses, ...tests].map((point) => point[0]);
  const firstStep = Math.min(...steps, status.step), lastStep = Math.max(...steps, firstStep + 1);
  const lows = losses.map((point) => point[1]);
  const low = losses.length ? Math.min(...lows) : 0, high = losses.length ? Math.max(...lows) : 1;
  const x = (step) => left + ((right - left) * (step - firstStep)) / (lastStep - firstStep);
  const y = (share) => bottom - (bottom - top) * share;
  const yLoss = (loss) => y(high > low ? (loss - low) / (high - low) : 0.5);
  const path = (points) => points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(svgElement("line", { x1: left, x2: right, y1: y(share), y2: y(share) }));
    parts.push(svgElement("text", { x: right + 4, y: y(share) + 4 }, share.toFixed(1)));
    if (losses.length) {
      const label = axis(low + share * (high - low));
      parts.push(svgElement("text", { x: left - 4, y: y(share) + 4, "text-anchor": "end" }, label));
    }
  }
  parts.push(svgElement("text", { x: left, y: height - 4 }, `step ${count(firstStep)}`));
  parts.push(svgElement("text", { x: right, y: height - 4, "text-anchor": "end" }, count(lastStep)));
  const lossPoints = losses.map(([step, loss]) => [x(step), yLoss(loss)]);
  const testPoints = tests.map(([step, accuracy]) => [x(step), y(accuracy)]);
  parts.push(svgElement("path", { class: "loss", d: path(lossPoints) }));
  parts.push(svgElement("path", { class: "accuracy", d: path(testPoints) }));
  for (const [cx, cy] of testPoints.slice(-60)) parts.push(svgElement("circle", { cx, cy, r: 0.2 * em }));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...parts);
}

function showEvents(events) {
  const items = children(at("events"), "li", Math.max(1, events.length));
  if (events.length === 0) return setText(items[0], "none so far");
  [...events].reverse().forEach((event, i) => {
    const when = new Date(1000 * event.time).toLocaleTimeString();
    setText(items[i], `${when}  ${event.text}${event.times > 1 ? ` (${count(event.times)} times)` : ""}`);
  });
}

function show(status) {
  const job = status.job;
  setText(at("name"), String(job.name));
  document.title = `${status.steps ? percent(status.step / status.steps) : count(status.step)} ${job.name} – Tern`;
  setText(at("about"), `${job.model}, ${job.algorithm}, ${job.codec}, ${count(job.parameters)} parameters`);
  setText(at("state"), String(status.state));
  at("state").className = classOfState(status.state);
  const bar = at("bar");
  if (status.steps) bar.value = status.step / status.steps;
  else bar.removeAttribute("value");
  setText(at("version"), `tern ${job.version} ${job.commit}`);
  showFigures(status);
  showTable(at("workers"), WORKER_COLUMNS, status.workers);
  showTable(at("servers"), SHARD_COLUMNS, status.servers);
  showEvents(status.events);
  showCurve(status);
}

// The alarm names what stands in the way: an answer that does not come, or workers that are not there.
function alarmOf(status, silentMs) {
  if (silentMs > 3000) return `Server shard 0 has not answered for ${seconds(silentMs / 1000)}; the job may have ended. This is what it said last.`;
  if (!status) return "";
  if (status.age_s > 5) return `The control thread of server shard 0 has not turned for ${seconds(status.age_s)}.`;
  const isDispensable = (w) => (status.job.shrinks && w.state !== "silent") || (w.state === "absent" && status.state === "gathering");
  const bad = status.workers.filter((w) => classOfState(w.state) === "bad" && !isDispensable(w));
  return bad.map((w) => `Worker ${w.rank}${w.host ? ` on ${w.host}` : ""} ${w.state === "left" ? "has" : "is"} ${w.state}${isNumber(w.silent_s) ? `, not heard for ${seconds(w.silent_s)}` : ""}.`).join(" ");
}

let newest = null, answeredAt = performance.now();

async function refresh() {
  try {
    const answer = await fetch("status.json", { signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store" });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    newest = await answer.json();
    answeredAt = performance.now();
    show(newest);
  } catch (error) {
    console.warn("status.json:", error.message);
  }
  const alarm = alarmOf(newest, performance.now() - answeredAt);
  setText(at("alarm"), alarm);
  at("alarm").hidden = alarm === "";
}

async function run() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
  }
}

addEventListener("resize", () => newest && showCurve(newest));
run();
