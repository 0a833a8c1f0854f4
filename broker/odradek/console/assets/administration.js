// Transactions, moves, users, quotas and rights: each part is asked by itself, and one that is refused says why.

import { ask } from "./api.js";
import { el, link, replace } from "./dom.js";
import { alertBox, badge, count, duration, field, live, moment, pager, plural, table } from "./parts.js";

const EVERY_MS = 15000;

export function openAdministration(root, page) {
  root.append(
    el("p", {}, link("overview", {}, "The overview"), " says what is wrong. Here is what runs, and what each user may do."),
    part(page, "Moves", "moves", renderMoves),
    part(page, "Transactions", "transactions", renderTransactions),
    hangingForm(page),
    part(page, "Quotas", "quotas", renderQuotas),
    part(page, "Users", "users", renderUsers),
    part(page, "Mirrors", "mirrors", renderMirrors),
    carried(page),
    rights(page));
}

function part(page, title, path, render) {
  const region = el("div");
  live(page, region, path, () => ({}), (document) => [render(document), rest(document)], { every: EVERY_MS });
  return el("section", {}, el("h2", {}, title), region);
}

function rest(document) {
  const more = document.total - document.rows.length;
  return more > 0 && el("p", { class: "soft" }, `And ${count(more)} more, which a terminal lists.`);
}

function renderMoves(document) {
  return table(plural(document.total, "partition") + " on the move", [
    { head: "Topic", cell: (one) => link("topic", { topic: one.topic }, one.topic) },
    { head: "Partition", number: true, cell: (one) => one.partition },
    { head: "From brokers", cell: (one) => one.from.join(", ") },
    { head: "To brokers", cell: (one) => one.to.join(", ") },
    { head: "Being copied to", cell: (one) => one.adding.join(", ") || "–" },
  ], document.rows, "No replica moves.");
}

// A heartbeat that was copied with the records of a cluster says how old its data is here.
function renderMirrors(document) {
  return [
    document.unread.map((one) => el("p", { class: "warn" }, `Topic ${one.topic} could not be read: ${one.why}`)),
    table(plural(document.total, "flow") + " of mirrors", [
      { head: "From cluster", cell: (one) => one.source },
      { head: "To cluster", cell: (one) => one.target },
      { head: "Heartbeat", cell: (one) => (one.came_from ? `copied from ${one.came_from}` : "written here") },
      { head: "Last at", cell: (one) => moment(one.beat_ms) },
      { head: "Age", number: true, cell: (one) => duration(Math.max(document.asked_ms - one.beat_ms, 0)) },
    ], document.rows, "No mirror has written to this cluster."),
  ];
}

function carried(page) {
  const region = el("div");
  const filter = el("input", { type: "search", autocomplete: "off" });
  const reload = live(page, region, "carried", () => ({ text: filter.value, count: 100 }), (document) => [
    table(plural(document.total, "position") + " of groups that mirrors carried", [
      { head: "Group", cell: (one) => one.group },
      { head: "From cluster", cell: (one) => one.source },
      { head: "Topic here", cell: (one) => link("topic", { topic: one.topic }, one.topic) },
      { head: "Partition", number: true, cell: (one) => one.partition },
      { head: "Offset there", number: true, cell: (one) => count(one.source_offset) },
      { head: "Offset here", number: true, cell: (one) => count(one.offset) },
      { head: "Carried at", cell: (one) => moment(one.written_ms) },
    ], document.rows, "No position was carried."),
    rest(document),
  ], { every: EVERY_MS });
  filter.addEventListener("input", reload);
  return el("section", {}, el("h3", {}, "Positions of groups"), field("Group contains", filter), region);
}

function renderTransactions(document) {
  return table(plural(document.total, "transactional id"), [
    { head: "Transactional id", cell: (one) => one.transactional_id },
    { head: "State", cell: (one) => badge(one.state) },
    { head: "Open for", number: true, cell: (one) => openFor(document, one) },
    { head: "Ends by itself after", number: true, cell: (one) => duration(one.timeout_ms) },
    { head: "Partitions", cell: (one) => one.error ?? (one.partitions_total ? `${one.partitions.join(", ")}${one.partitions_total > one.partitions.length ? " …" : ""}` : "–") },
    { head: "Coordinator", number: true, cell: (one) => one.coordinator },
  ], document.rows, "No producer has a transactional id.");
}

function openFor(document, one) {
  if (one.started_ms === null) return "–";
  const open = Math.max(document.asked_ms - one.started_ms, 0);
  return one.timeout_ms !== null && open > one.timeout_ms ? el("span", { class: "warn" }, `${duration(open)}, longer than it may`) : duration(open);
}

function hangingForm(page) {
  const topic = el("input", { required: true, autocomplete: "off" });
  const result = el("div", { "aria-live": "polite" });
  async function look(event) {
    event.preventDefault();
    try {
      const document = await ask("hanging", { topic: topic.value }, page.signal);
      replace(result, table(`Transactions that hang in ${document.topic}`, [
        { head: "Partition", number: true, cell: (one) => one.partition },
        { head: "Producer", number: true, cell: (one) => one.producer_id },
        { head: "From offset", number: true, cell: (one) => count(one.start_offset) },
        { head: "Last record", cell: (one) => moment(one.last_ms) },
        { head: "What ends it", cell: (one) => el("code", {}, one.command) },
      ], document.rows, `No transaction hangs in ${document.topic}.`));
    } catch (failure) {
      if (!page.signal.aborted) replace(result, alertBox(failure.message));
    }
  }
  return el("details", {}, el("summary", {}, "Look for transactions that hang"),
    el("p", {}, "Readers of committed records wait for them, and their coordinator does not know them."),
    el("form", { class: "row", onsubmit: look }, field("In topic", topic), el("button", {}, "Look")), result);
}

function renderQuotas(document) {
  return table(plural(document.total, "quota"), [
    { head: "Of", cell: (one) => one.entity },
    { head: "Limits", cell: (one) => Object.entries(one.values).map(([key, value]) => `${key} ${count(value)}`).join(", ") },
  ], document.rows, "No client has a quota.");
}

function renderUsers(document) {
  return table(plural(document.total, "user with a password"), [
    { head: "User", cell: (one) => one.user },
    { head: "Mechanisms", cell: (one) => one.mechanisms.join(", ") },
  ], document.rows, "No user has a password that the brokers keep.");
}

function rights(page) {
  const list = el("div");
  let timer = null;
  const reload = live(page, list, "rights", () => page.fields, (document) => [
    table(plural(document.total, "right"), [
      { head: "Who", cell: (one) => [one.principal, one.host !== "*" && ` from ${one.host}`] },
      { head: "May", cell: (one) => [el("span", { class: one.permission === "DENY" && "warn" }, one.permission === "DENY" ? "not " : ""), one.operation.toLowerCase().replaceAll("_", " ")] },
      { head: "What", cell: (one) => one.resource.toLowerCase().replaceAll("_", " ") },
      { head: "Named", cell: (one) => (one.pattern === "PREFIXED" ? `${one.name}…` : one.name) },
    ], document.rows, "There is no such right."),
    pager("administration", page.fields, document),
  ], { every: EVERY_MS });
  const search = el("input", {
    type: "search", value: page.fields.text ?? "", autocomplete: "off",
    oninput: (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => { page.update({ text: event.target.value, first: "" }); reload(); }, 250);
    },
  });
  return el("section", {}, el("h2", {}, "Rights"),
    el("form", { class: "row", role: "search", onsubmit: (event) => event.preventDefault() },
      field("Principal or name contains", search)), list);
}
