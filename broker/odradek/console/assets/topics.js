// The list of topics, and one topic: partitions, groups that read it, settings.

import { ask } from "./api.js";
import { actionForm } from "./actions.js";
import { el, link, replace } from "./dom.js";
import { alertBox, badge, bytes, check, count, facts, field, lagOf, listControls, live, pager, plural, silence, table } from "./parts.js";

const ORDERS = [["name", "Name"], ["size", "Size"], ["partitions", "Partitions"], ["lag", "Lag of groups"]];

export function openTopics(root, page) {
  const list = el("div");
  const reload = live(page, list, "topics", () => page.fields, (document) => renderTopics(page, document));
  root.append(listControls(page, ORDERS, reload), list);
  if (page.about.may_change) root.append(createForm(reload));
}

function renderTopics(page, document) {
  return [
    silence(document),
    !document.are_groups_known && el("p", { class: "warn" }, "The groups could not be asked for."),
    table(plural(document.total, "topic"), [
      { head: "Topic", cell: (one) => [link("topic", { topic: one.name }, one.name), one.is_internal && " (internal)"] },
      { head: "Partitions", number: true, cell: (one) => count(one.partitions) },
      { head: "Copies", number: true, cell: (one) => count(one.copies) },
      { head: "Size", number: true, cell: (one) => bytes(one.size_bytes) },
      { head: "State", cell: (one) => stateOf(one) },
      { head: "Groups that read it", cell: (one) => readersOf(one) },
      { head: "Records", cell: (one) => link("records", { topic: one.name }, "Look") },
    ], document.rows, "There is no such topic."),
    pager("topics", page.fields, document),
  ];
}

function stateOf(topic) {
  if (topic.error) return el("span", { class: "bad" }, topic.error);
  const parts = [];
  if (topic.without_leader) parts.push(el("span", { class: "bad" }, `${count(topic.without_leader)} without leader `));
  if (topic.under_replicated) parts.push(el("span", { class: "warn" }, `${count(topic.under_replicated)} under-replicated`));
  return parts.length ? parts : el("span", { class: "good" }, "all in sync");
}

function readersOf(topic) {
  if (!topic.groups.length) return "–";
  const more = topic.groups_total - topic.groups.length;
  return el("ul", {},
    topic.groups.map((one) => el("li", {}, link("group", { group: one.group }, one.group), ` ${lagOf(one)}`)),
    more > 0 && el("li", {}, `and ${count(more)} more`));
}

export function openTopic(root, page) {
  const name = page.fields.topic;
  const detail = el("div");
  const settings = el("div", {}, el("p", { class: "soft" }, "Asking…"));
  let showsDefaults = false;
  let known = null;
  root.append(
    el("p", {}, link("records", { topic: name }, "Look at its records")),
    detail,
    el("section", { "aria-labelledby": "settings" },
      el("h2", { id: "settings" }, "Settings"),
      check("Also those with their default", { onchange: (event) => { showsDefaults = event.target.checked; renderSettings(); } }),
      settings));
  const reload = live(page, detail, "topic", () => page.fields, (document) => renderTopic(page, document));
  async function loadSettings() {
    try {
      known = (await ask("settings", { topic: name }, page.signal)).settings;
      renderSettings();
    } catch (failure) {
      if (!page.signal.aborted) replace(settings, alertBox(failure.message));
    }
  }
  function renderSettings() {
    if (known === null) return;
    replace(settings, table("Settings of the topic", [
      { head: "Setting", cell: (one) => [el("code", {}, one.name), one.meaning && el("p", { class: "soft" }, one.meaning)] },
      { head: "Value", cell: (one) => (one.is_secret ? "(secret)" : el("code", {}, one.value ?? "–")) },
      { head: "From", cell: (one) => one.source },
    ], known.filter((one) => showsDefaults || !one.is_default), "All settings have their default."));
  }
  loadSettings();
  if (page.about.may_change) {
    root.append(settingsForm(name, () => { loadSettings(); }), produceForm(name, reload), deleteForm(name));
  }
}

function renderTopic(page, document) {
  const name = document.name;
  return [
    document.error && alertBox(document.error),
    facts(
      ["Partitions", count(document.partitions)], ["Copies", count(document.copies)],
      ["Size", bytes(document.size_bytes)], ["On all disks", bytes(document.disk_bytes)],
      ["State", stateOf(document)], ["Id", document.id]),
    el("h2", {}, "Groups that read it"),
    table("Groups", [
      { head: "Group", cell: (one) => link("group", { group: one.group }, one.group) },
      { head: "State", cell: (one) => badge(one.state) },
      { head: "Kind", cell: (one) => one.type },
      { head: "Lag", number: true, cell: (one) => count(one.lag) },
    ], document.readers, "No group has committed an offset of it."),
    el("h2", {}, "Partitions"),
    table("Partitions", [
      { head: "Partition", number: true, cell: (one) => link("records", { topic: name, partition: one.partition }, one.partition) },
      { head: "Leader", number: true, cell: (one) => one.leader ?? el("span", { class: "bad" }, "none") },
      { head: "Copies on", cell: (one) => one.replicas.join(", ") },
      { head: "In sync", cell: (one) => one.in_sync.join(", ") },
      { head: "First offset", number: true, cell: (one) => count(one.start) },
      { head: "End", number: true, cell: (one) => count(one.end) },
      { head: "Size", number: true, cell: (one) => bytes(one.size_bytes) },
      { head: "Problems", cell: (one) => one.problems.map((problem) => [badge(problem), " "]) },
    ], document.page.rows, "It has no partition."),
    pager("topic", page.fields, document.page),
  ];
}

// --- changes ---------------------------------------------------------------------------------------------------------

function parseSettings(text) {
  const found = {};
  for (const line of text.split("\n")) {
    const equals = line.indexOf("=");
    if (equals > 0) found[line.slice(0, equals).trim()] = line.slice(equals + 1).trim();
  }
  return found;
}

function createForm(done) {
  const topic = el("input", { required: true, autocomplete: "off" });
  const partitions = el("input", { type: "number", min: 1 });
  const copies = el("input", { type: "number", min: 1 });
  const settings = el("textarea", { rows: 3, placeholder: "retention.ms=3600000" });
  return actionForm("create-topic", "Make a topic", [
    field("Name", topic), field("Partitions (default: the broker's)", partitions),
    field("Copies (default: the broker's)", copies), field("Settings, one a line", settings),
  ], () => ({
    topic: topic.value, partitions: partitions.value || null, copies: copies.value || null,
    settings: parseSettings(settings.value),
  }), done);
}

function settingsForm(topic, done) {
  const set = el("textarea", { rows: 3, placeholder: "retention.ms=3600000" });
  const unset = el("input", { autocomplete: "off", placeholder: "segment.bytes" });
  return actionForm("change-settings", "Change settings", [
    field("Set, one a line", set), field("Back to the default, with commas", unset),
  ], () => ({
    topic, set: parseSettings(set.value), unset: unset.value.split(",").map((one) => one.trim()).filter(Boolean),
  }), done);
}

function produceForm(topic, done) {
  const partition = el("input", { type: "number", min: 0 });
  const key = el("input", { autocomplete: "off" });
  const value = el("textarea", { rows: 5 });
  const headers = el("textarea", { rows: 2, placeholder: "name=value" });
  return actionForm("produce", "Produce a record", [
    field("Partition (default: by the key)", partition), field("Key (empty: none)", key),
    field("Value", value), field("Headers, one a line", headers),
  ], () => ({
    topic, partition: partition.value === "" ? null : partition.value, key: key.value || null, value: value.value,
    headers: Object.entries(parseSettings(headers.value)),
  }), done);
}

function deleteForm(topic) {
  const typed = el("input", { autocomplete: "off", required: true });
  return actionForm("delete-topic", "Delete the topic with all its records", [
    field("Type its name", typed),
  ], () => {
    if (typed.value !== topic) throw new Error("the name is another one");
    return { topic };
  }, () => { location.hash = "#/topics"; }, { isDangerous: true });
}
