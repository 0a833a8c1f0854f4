// Parts that several pages are made of: tables, pagers, figures for people, and regions that stay up to date.

import { ask } from "./api.js";
import { el, link, replace } from "./dom.js";

const REFRESH_MS = 5000;
const NONE = "–";

// --- figures ---------------------------------------------------------------------------------------------------------

export function count(number) {
  return number === null || number === undefined ? NONE : number.toLocaleString("en");
}

export function bytes(number) {
  if (number === null || number === undefined || number < 0) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let step = 0;
  let left = number;
  while (left >= 1024 && step < units.length - 1) {
    left /= 1024;
    step += 1;
  }
  return `${step && left < 10 ? left.toFixed(1) : Math.round(left)} ${units[step]}`;
}

export function moment(ms) {
  return ms === null || ms === undefined || ms < 0 || ms > 8.64e15 ? NONE : new Date(ms).toISOString();
}

export function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

const BAD = new Set(["offline", "leaderless", "under_min_isr", "unhealthy", "gone", "silent", "Dead", "problem"]);
const WARN = new Set([
  "at_min_isr", "under_replicated", "degraded", "warning",
  "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling",
]);
const GOOD = new Set(["healthy", "live", "Stable"]);
const WORDS = {
  offline: "offline", leaderless: "without leader", under_min_isr: "under min.insync.replicas",
  at_min_isr: "at min.insync.replicas", under_replicated: "under-replicated", not_preferred: "not preferred leader",
};

// The colour never stands alone: the word says the same.
export function badge(state) {
  const kind = BAD.has(state) ? "bad" : WARN.has(state) ? "warn" : GOOD.has(state) ? "good" : "soft";
  return el("span", { class: `badge ${kind}` }, WORDS[state] ?? state);
}

export function facts(...pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export function alertBox(words) {
  return el("p", { class: "alert", role: "alert" }, words);
}

// --- tables ----------------------------------------------------------------------------------------------------------

// columns: [{head, cell: (row) => child, number: true}]
export function table(caption, columns, rows, empty) {
  if (!rows.length) return el("p", { class: "soft" }, empty);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, columns.map((one) =>
        el("th", { scope: "col", class: one.number && "number" }, one.head)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, columns.map((one) =>
        el("td", { class: one.number && "number" }, one.cell(row))))))));
}

export function pager(page, fields, part) {
  const size = Number(fields.count || 50);
  const first = part.first;
  const last = Math.min(first + size, part.total);
  if (part.total <= size && !first) return null;
  return el("nav", { class: "pager", "aria-label": "Rows" },
    el("span", { class: "soft" }, `${count(first + 1)} to ${count(last)} of ${count(part.total)}`),
    first > 0 && link(page, { ...fields, first: Math.max(first - size, 0) || "" }, "Previous rows"),
    last < part.total && link(page, { ...fields, first: last }, "Next rows"));
}

export function silence(document) {
  return document.silent.map((one) => el("p", { class: "warn" }, `Broker ${one.broker} did not answer: ${one.why}`));
}

export function lagOf(reader) {
  return reader.lag === null ? "lag unknown" : `lag ${count(reader.lag)}`;
}

// --- regions that stay up to date ------------------------------------------------------------------------------------

// A part of the page that is asked again every few seconds while it is looked at. Returns what asks at once.
export function live(page, region, path, fields, render, { every = REFRESH_MS } = {}) {
  let last = "";
  let timer = null;
  async function load() {
    clearTimeout(timer);
    try {
      const document = await ask(path, fields(), page.signal);
      page.note(document.asked_ms);
      const { asked_ms: _, ...rest } = document;
      const text = JSON.stringify(rest);
      if (text !== last) replace(region, render(document));
      last = text;
    } catch (failure) {
      if (page.signal.aborted) return;
      last = "";
      replace(region, alertBox(failure.message));
    }
    if (!page.signal.aborted) timer = setTimeout(tick, every);
  }
  function tick() {
    if (document.hidden) timer = setTimeout(tick, every);
    else load();
  }
  page.signal.addEventListener("abort", () => clearTimeout(timer));
  load();
  return load;
}

// A labelled control.
export function field(label, control) {
  return el("label", {}, label, control);
}

export function check(label, properties) {
  return el("label", { class: "check" }, el("input", { type: "checkbox", ...properties }), label);
}

export function choose(options, chosen, properties = {}) {
  return el("select", properties, options.map(([value, words]) =>
    el("option", { value, selected: value === chosen }, words)));
}

// A filter and an order above a list; both are in the address.
export function listControls(page, orders, reload) {
  let timer = null;
  const search = el("input", {
    type: "search", value: page.fields.text ?? "", autocomplete: "off",
    oninput: (event) => {
      clearTimeout(timer);
      const text = event.target.value;
      timer = setTimeout(() => { page.update({ text, first: "" }); reload(); }, 250);
    },
  });
  const order = choose(orders, page.fields.order ?? orders[0][0], {
    onchange: (event) => { page.update({ order: event.target.value, first: "" }); reload(); },
  });
  return el("form", { class: "row", role: "search", onsubmit: (event) => event.preventDefault() },
    field("Name contains", search), field("Order", order));
}

