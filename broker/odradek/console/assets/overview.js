// What is wrong, the brokers, and who leads what.

import { el, link } from "./dom.js";
import { badge, bytes, count, facts, live, pager, plural, silence, table } from "./parts.js";

const FINDINGS_MS = 30000;

export function openOverview(root, page) {
  const findings = el("div", {}, el("p", { class: "soft" }, "Looking at the cluster…"));
  const health = el("div");
  const leaders = el("div");
  root.append(
    el("section", { "aria-labelledby": "wrong" }, el("h2", { id: "wrong" }, "What is wrong"), findings),
    health,
    el("section", { "aria-labelledby": "leads" }, el("h2", { id: "leads" }, "Who leads what"), leaders));
  live(page, findings, "findings", () => ({}), renderFindings, { every: FINDINGS_MS });
  live(page, health, "overview", () => ({}), renderHealth);
  live(page, leaders, "topics", () => ({ first: page.fields.first, count: 25 }), (document) => renderLeaders(page, document));
}

function renderFindings(document) {
  return [
    document.findings.length
      ? el("ul", { class: "findings" }, document.findings.map((one) =>
        el("li", { class: one.severity },
          el("p", {}, badge(one.severity), ` ${one.check}: ${one.words}`),
          one.advice && el("p", { class: "soft" }, one.advice))))
      : el("p", { class: "good" }, "Nothing was found."),
    document.passed.length ? el("p", { class: "soft" }, `Without a finding: ${document.passed.join(", ")}.`) : null,
  ];
}

function renderHealth(document) {
  const problems = document.problems;
  const controller = document.controller_id === null
    ? (document.is_forwarded ? "not known" : el("span", { class: "bad" }, "none"))
    : `broker ${document.controller_id}`;
  const bad = (number) => (number ? el("span", { class: "bad" }, count(number)) : "0");
  return [
    facts(
      ["Health", badge(document.verdict)],
      ["Brokers", count(document.brokers.filter((one) => one.status === "live").length)],
      ["Controller", controller],
      ["Topics", link("topics", {}, count(document.topics))],
      ["Partitions", count(document.partitions)],
      ["Offline", bad((problems.offline ?? 0) + (problems.leaderless ?? 0))],
      ["Under-replicated", bad(problems.under_replicated)],
      ["Under min. in sync", bad(problems.under_min_isr)],
      ["Moving", count(document.moves)],
      ["Groups", link("groups", {}, count(Object.values(document.groups).reduce((sum, one) => sum + one, 0)))]),
    el("p", { class: "soft" }, `Cluster ${document.cluster_id}`),
    el("h2", {}, "Brokers"),
    table("Brokers", [
      { head: "Broker", cell: (one) => `${one.id}${one.is_controller ? " (controller)" : ""}` },
      { head: "State", cell: (one) => [badge(one.status), one.error && ` ${one.error}`] },
      { head: "Address", cell: (one) => one.address ?? "–" },
      { head: "Rack", cell: (one) => one.rack ?? "–" },
      { head: "Leads", number: true, cell: (one) => count(one.leaders) },
      { head: "Copies", number: true, cell: (one) => count(one.replicas) },
      { head: "Free of disk", number: true, cell: (one) => (one.total_bytes === null ? "–" : `${bytes(one.usable_bytes)} of ${bytes(one.total_bytes)}`) },
    ], document.brokers, "No broker is known."),
    document.troubled_total ? [
      el("h2", {}, "Partitions with a problem"),
      table(`${plural(document.troubled_total, "partition")}${document.troubled_total > document.troubled.length ? `, the worst ${document.troubled.length} of them` : ""}`, [
        { head: "Topic", cell: (one) => link("topic", { topic: one.topic }, one.topic) },
        { head: "Partition", number: true, cell: (one) => one.partition },
        { head: "Problems", cell: (one) => one.problems.map((problem) => [badge(problem), " "]) },
        { head: "Leader", number: true, cell: (one) => one.leader ?? "none" },
        { head: "Copies on", cell: (one) => one.replicas.join(", ") },
        { head: "In sync", cell: (one) => one.in_sync.join(", ") },
      ], document.troubled, ""),
    ] : null,
  ];
}

function renderLeaders(page, document) {
  const brokers = [...new Set([
    ...document.brokers.map(String),
    ...document.rows.flatMap((one) => [...Object.keys(one.leads), ...Object.keys(one.follows)]),
  ])].sort((left, right) => left - right);
  return [
    silence(document),
    table("Partitions that each broker leads, and those that it only follows", [
      { head: "Topic", cell: (one) => link("topic", { topic: one.name }, one.name) },
      ...brokers.map((broker) => ({
        head: `Broker ${broker}`,
        cell: (one) => {
          const leads = one.leads[broker] ?? 0;
          const follows = one.follows[broker] ?? 0;
          return leads + follows ? `leads ${count(leads)}, follows ${count(follows)}` : "–";
        },
      })),
    ], document.rows, "There is no topic yet."),
    pager("overview", { ...page.fields, count: 25 }, document),
  ];
}
