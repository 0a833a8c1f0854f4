// The list of groups, and one group: members, what each owns, and lag.

import { actionForm } from "./actions.js";
import { el, link, replace } from "./dom.js";
import { badge, choose, count, duration, facts, field, listControls, live, pager, plural, silence, table } from "./parts.js";

const ORDERS = [["name", "Name"], ["lag", "Lag"], ["state", "State"]];
const DESTINATIONS = [
  ["earliest", "the first record kept"], ["latest", "the end"], ["offset", "an offset"],
  ["time", "a time"], ["shift", "so many records on (or back)"], ["current", "where it is"],
];
const WITH_VALUE = new Set(["offset", "time", "shift"]);

export function openGroups(root, page) {
  const list = el("div");
  const reload = live(page, list, "groups", () => page.fields, (document) => [
    silence(document),
    table(plural(document.total, "group"), [
      { head: "Group", cell: (one) => link("group", { group: one.group }, one.group) },
      { head: "State", cell: (one) => badge(one.state) },
      { head: "Kind", cell: (one) => one.type },
      { head: "Topics", cell: (one) => topicsOf(one) },
      { head: "Partitions", number: true, cell: (one) => count(one.partitions) },
      { head: "Lag", number: true, cell: (one) => (one.error ? el("span", { class: "warn" }, one.error) : count(one.lag)) },
    ], document.rows, "There is no such group."),
    pager("groups", page.fields, document),
  ]);
  root.append(listControls(page, ORDERS, reload), list);
}

function topicsOf(group) {
  if (!group.topics.length) return "–";
  const more = group.topics_total - group.topics.length;
  return el("ul", {},
    group.topics.map((one) => el("li", {}, link("topic", { topic: one }, one))),
    more > 0 && el("li", {}, `and ${count(more)} more`));
}

export function openGroup(root, page) {
  const detail = el("div");
  const reload = live(page, detail, "group", () => page.fields, (document) => renderGroup(page, document));
  root.append(detail);
  if (page.about.may_change) root.append(...changeForms(page.fields.group, reload));
}

function renderGroup(page, document) {
  return [
    facts(
      ["State", badge(document.state)], ["Kind", document.type], ["Lag", count(document.lag)],
      ["Members", count(document.members_total)], ["Assignor", document.assignor || "–"],
      ["Coordinator", `broker ${document.coordinator}`],
      ...(document.epoch === null ? [] : [["Epoch", document.epoch], ["Epoch of the assignment", document.assignment_epoch]])),
    el("h2", {}, "Members"),
    table(document.members_total > document.members.length ? `The first ${document.members.length} of ${count(document.members_total)} members` : "Members", [
      { head: "Member", cell: (one) => [one.member, one.instance && el("p", { class: "soft" }, `instance ${one.instance}`)] },
      { head: "Client", cell: (one) => `${one.client} ${one.host}` },
      { head: "Reads", cell: (one) => one.pattern ?? one.topics.join(", ") },
      { head: "Owns", cell: (one) => [one.owns.join(", ") || "nothing", one.owns_total > one.owns.length && ` and ${count(one.owns_total - one.owns.length)} more`] },
      { head: "Waits for", cell: (one) => one.waits_for.join(", ") || "–" },
    ], document.members, "It has no members now."),
    el("h2", {}, "Partitions"),
    table("Partitions, the largest lag first", [
      { head: "Topic", cell: (one) => link("topic", { topic: one.topic }, one.topic) },
      { head: "Partition", number: true, cell: (one) => link("records", { topic: one.topic, partition: one.partition, offset: one.committed }, one.partition) },
      { head: "Committed", number: true, cell: (one) => count(one.committed) },
      { head: "End", number: true, cell: (one) => count(one.end) },
      { head: "Lag", number: true, cell: (one) => count(one.lag) },
      { head: "Oldest unread waits", number: true, cell: (one) => duration(one.lag_ms) },
      { head: "Member", cell: (one) => (one.client === null ? "–" : `${one.client} ${one.host}`) },
    ], document.page.rows, "It has committed nothing, and owns nothing."),
    pager("group", page.fields, document.page),
  ];
}

function changeForms(group, reload) {
  const undo = el("div");
  return [resetForm(group, (document) => {
    replace(undo, undoForm(group, document.rows, reload));
    reload();
  }), undo, forgetForm(group, reload)];
}

// What a reset has changed, taken back with the offsets of before.
function undoForm(group, rows, done) {
  if (!rows.length) return null;
  const offsets = Object.fromEntries(rows.map((one) => [one.partition, one.before === null ? "" : String(one.before)]));
  return actionForm("restore-offsets", `Take the reset of ${rows[0].topic} back`, [
    el("p", {}, "The group continues where it was before the reset."),
  ], () => ({ group, topic: rows[0].topic, offsets }), done, { isDangerous: true });
}

function forgetForm(group, done) {
  const topic = el("input", { required: true, autocomplete: "off" });
  return actionForm("forget-topic", "Remove a topic from it", [field("Topic", topic)],
    () => ({ group, topic: topic.value }), done, { isDangerous: true });
}

function resetForm(group, done) {
  const topic = el("input", { required: true, autocomplete: "off" });
  const to = choose(DESTINATIONS, "earliest");
  const value = el("input", { autocomplete: "off", placeholder: "offset, records, or 2026-03-01T12:00" });
  return actionForm("reset-offsets", "Reset its offsets", [
    field("Topic", topic), field("To", to), field("Offset, time (UTC) or records", value),
  ], () => ({
    group, topic: topic.value, to: to.value,
    value: WITH_VALUE.has(to.value) ? numberOf(to.value, value.value) : null,
  }), done, { isDangerous: true });
}

function numberOf(kind, text) {
  if (kind !== "time") return text;
  const moment = Date.parse(/[zZ]|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`);
  if (Number.isNaN(moment)) throw new Error(`${text} is not a time; write it like 2026-03-01T12:00`);
  return moment;
}
