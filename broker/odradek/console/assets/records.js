// Records of a topic: a page of one partition, a live tail, and a search through all of it.

import { ask, listen } from "./api.js";
import { el, link, replace } from "./dom.js";
import { alertBox, bytes, choose, count, field, moment, plural } from "./parts.js";

const FORMS = [["auto", "as it fits"], ["json", "JSON"], ["text", "text"], ["hex", "hex"]];
const PLACES = [["newest", "the newest"], ["start", "the first"], ["offset", "an offset"], ["time", "a time"]];
const TAIL_ROWS_MAX = 200;
const REASONS = {
  end: "The whole topic was read.", matches: "There are more matches: the search ended at its bound.",
  time: "The search ended at its bound of time.",
};

export function openRecords(root, page) {
  const shown = el("div");
  const reading = { controller: null };
  function begin(title) {
    reading.controller?.abort();
    reading.controller = new AbortController();
    replace(shown, el("p", { class: "soft" }, title));
    return reading.controller.signal;
  }
  page.signal.addEventListener("abort", () => reading.controller?.abort());
  root.append(
    placeForm(page, () => showPage(page, shown, begin)),
    searchForm(page, shown, begin, () => reading.controller?.abort()),
    tailForm(page, shown, begin, () => reading.controller?.abort()),
    shown);
  if (page.fields.topic) showPage(page, shown, begin);
}

// --- a page ----------------------------------------------------------------------------------------------------------

function placeForm(page, show) {
  const given = page.fields;
  const place = given.offset ? "offset" : given.time ? "time" : given.start ? "start" : "newest";
  const topic = el("input", { required: true, autocomplete: "off", value: given.topic ?? "" });
  const partition = el("input", { type: "number", min: 0, value: given.partition ?? 0 });
  const from = choose(PLACES, place);
  const value = el("input", { autocomplete: "off", value: given.offset ?? (given.time ? moment(Number(given.time)) : ""), placeholder: "offset, or 2026-03-01T12:00" });
  const form = choose(FORMS, given.form ?? "auto");
  return el("form", {
    class: "row",
    onsubmit: (event) => {
      event.preventDefault();
      page.update({
        topic: topic.value, partition: partition.value, form: form.value === "auto" ? "" : form.value,
        offset: from.value === "offset" ? value.value : "", time: from.value === "time" ? timeOf(value.value) : "",
        start: from.value === "start" ? "1" : "", before: "",
      });
      show();
    },
  },
  field("Topic", topic), field("Partition", partition), field("From", from), field("Offset or time (UTC)", value),
  field("Values as", form), el("button", { type: "submit" }, "Show"));
}

function timeOf(text) {
  const time = Date.parse(/[zZ]|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`);
  return Number.isNaN(time) ? text : time;
}

async function showPage(page, shown, begin) {
  const signal = begin("Reading…");
  const { topic, partition = 0, form, offset, time, start, before } = page.fields;
  try {
    const document = await ask("records", { topic, partition, form, offset, time, start, before }, signal);
    replace(shown, renderPage(document, page.fields));
  } catch (failure) {
    if (!signal.aborted) replace(shown, alertBox(failure.message));
  }
}

function renderPage(document, fields) {
  const place = { topic: fields.topic, partition: document.partition, form: fields.form };
  return [
    el("p", { class: "soft" }, `Partition ${document.partition} holds offsets ${count(document.start)} to before ${count(document.end)}; this page has ${plural(document.records.length, "record")}.`),
    document.is_masked && el("p", { class: "soft" }, "Some fields of this topic are masked by the console. A search does not find them."),
    !document.is_complete && el("p", { class: "warn" }, "The page ended early: its records are large, or the broker is slow."),
    el("nav", { class: "pager", "aria-label": "Records" },
      document.first > document.start && link("records", { ...place, before: document.first }, "Older"),
      document.next < document.end && link("records", { ...place, offset: document.next }, "Newer"),
      link("records", { ...place, start: 1 }, "First"), link("records", place, "Newest")),
    recordTable(document.records, fields.topic, fields.form),
  ];
}

// --- records ---------------------------------------------------------------------------------------------------------

function recordTable(records, topic, form) {
  const body = el("tbody");
  const node = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Records" },
    el("table", {}, el("thead", {}, el("tr", {},
      ["Partition", "Offset", "Time", "Key", "Value", "Headers"].map((head) => el("th", { scope: "col" }, head)))), body));
  body.append(...records.map((record) => recordRow(record, topic, form)));
  return records.length ? node : el("p", { class: "soft" }, "There is no record here.");
}

function recordRow(record, topic, form) {
  return el("tr", {},
    el("td", { class: "number" }, record.partition),
    el("td", { class: "number" }, link("records", { topic, partition: record.partition, offset: record.offset, form }, record.offset)),
    el("td", {}, moment(record.timestamp_ms), record.is_append_time && el("p", { class: "soft" }, "by the broker")),
    el("td", {}, part(record.key)),
    el("td", {}, part(record.value), record.value?.is_shortened && wholeButton(record, topic, form)),
    el("td", {}, headersOf(record)));
}

function part(shown) {
  if (shown === null) return el("span", { class: "soft" }, "null");
  return [
    shown.error && el("p", { class: "warn" }, `Not decoded: ${shown.error}`),
    el("pre", { class: shown.form === "hex" && "hex" }, shown.text || el("span", { class: "soft" }, "(empty)")),
    shown.schema_id && !shown.error && el("p", { class: "soft" }, `by schema ${shown.schema_id}`),
    shown.is_shortened && el("p", { class: "soft" }, `the beginning of ${bytes(shown.size_bytes)}`),
  ];
}

function headersOf(record) {
  const more = record.headers_total - record.headers.length;
  return el("ul", {},
    record.headers.map((one) => el("li", {}, el("code", {}, one.name), ": ", one.value === null ? "null" : one.value.text)),
    more > 0 && el("li", {}, `and ${count(more)} more`));
}

function wholeButton(record, topic, form) {
  return el("button", {
    type: "button",
    onclick: async () => {
      const content = el("div", {}, el("p", {}, "Reading…"));
      const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
      const dialog = el("dialog", { "aria-label": `Record at offset ${record.offset}`, onclose: () => dialog.remove() }, close, content);
      document.body.append(dialog);
      dialog.showModal();
      try {
        const whole = await ask("record", { topic, partition: record.partition, offset: record.offset, form });
        replace(content, part(whole.value));
      } catch (failure) {
        replace(content, alertBox(failure.message));
      }
    },
  }, "More of it");
}

function withTopic(page, shown, act) {
  return (event) => {
    event.preventDefault();
    if (page.fields.topic) act();
    else replace(shown, alertBox("Name a topic above, and show it first."));
  };
}

// --- search ----------------------------------------------------------------------------------------------------------

function searchForm(page, shown, begin, stop) {
  const text = el("input", { type: "search", required: true, autocomplete: "off", value: page.fields.text ?? "" });
  const where = choose([["key,value", "keys and values"], ["value", "values"], ["key", "keys"], ["headers", "headers"], ["key,value,headers", "all"]], "key,value");
  const partitions = el("input", { autocomplete: "off", placeholder: "all" });
  const exact = el("input", { type: "checkbox" });
  const form = el("form", {
    class: "row",
    onsubmit: withTopic(page, shown, () => {
      page.update({ text: text.value });
      search(page, shown, begin, {
        topic: page.fields.topic, text: text.value, in: where.value, partitions: partitions.value,
        exact: exact.checked ? 1 : "", form: page.fields.form,
      });
    }),
  },
  field("Text", text), field("In", where), field("Partitions (as 0,2)", partitions),
  el("label", { class: "check" }, exact, "Capitals count"),
  el("button", { type: "submit" }, "Search"), el("button", { type: "button", onclick: stop }, "Stop"));
  return el("details", { open: Boolean(page.fields.text) }, el("summary", {}, "Search the whole topic"), form);
}

async function search(page, shown, begin, wanted) {
  const signal = begin("Searching…");
  const bar = el("progress", { max: 1, "aria-label": "Offsets passed" });
  const words = el("p", { role: "status" });
  const body = el("tbody");
  replace(shown, words, bar, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Matches" }, el("table", {},
    el("thead", {}, el("tr", {}, ["Partition", "Offset", "Time", "Key", "Value", "Headers"].map((head) => el("th", { scope: "col" }, head)))), body)));
  function report(document, end = "") {
    bar.max = Math.max(document.total, 1);
    bar.value = document.total ? document.passed : 1;
    replace(words, `${plural(document.matched, "match").replace("matchs", "matches")} in ${plural(document.read, "record")}, ${bytes(document.read_bytes)}. ${end}`);
  }
  try {
    await listen("search", wanted, signal, (name, document) => {
      if (name === "match") body.append(recordRow(document, wanted.topic, wanted.form));
      else report(document, name === "done" ? REASONS[document.reason] : "");
    });
  } catch (failure) {
    if (!signal.aborted) replace(shown, alertBox(failure.message));
    else addText(words, " Stopped.");
  }
}

function addText(node, text) {
  node.append(document.createTextNode(text));
}

// --- tail ------------------------------------------------------------------------------------------------------------

function tailForm(page, shown, begin, stop) {
  const partitions = el("input", { autocomplete: "off", placeholder: "all" });
  const form = el("form", {
    class: "row",
    onsubmit: withTopic(page, shown, () => {
      tail(shown, begin, { topic: page.fields.topic, partitions: partitions.value, form: page.fields.form });
    }),
  },
  field("Partitions (as 0,2)", partitions),
  el("button", { type: "submit" }, "Follow"), el("button", { type: "button", onclick: stop }, "Stop"));
  return el("details", {}, el("summary", {}, "Follow new records"), form);
}

async function tail(shown, begin, wanted) {
  const signal = begin("Waiting for records…");
  const words = el("p", { class: "soft" }, "Waiting for records…");
  const body = el("tbody");
  let skipped = 0;
  let seen = 0;
  replace(shown, words, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "New records" }, el("table", {},
    el("thead", {}, el("tr", {}, ["Partition", "Offset", "Time", "Key", "Value", "Headers"].map((head) => el("th", { scope: "col" }, head)))), body)));
  try {
    await listen("tail", wanted, signal, (name, document) => {
      skipped += document.skipped ?? 0;
      if (name === "done") {
        replace(words, "The tail ended after an hour.");
        return;
      }
      for (const record of document.records ?? []) {
        body.prepend(recordRow(record, wanted.topic, wanted.form));
        seen += 1;
      }
      while (body.childElementCount > TAIL_ROWS_MAX) body.lastElementChild.remove();
      if (seen) replace(words, `${plural(seen, "record")}, the newest first${skipped ? `; ${count(skipped)} passed too fast and are left out` : ""}.`);
    });
  } catch (failure) {
    if (!signal.aborted) replace(shown, alertBox(failure.message));
    else addText(words, " Stopped.");
  }
}
