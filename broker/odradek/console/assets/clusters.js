// All clusters of the console: how each of them is, and the switcher between them.

import { address, el } from "./dom.js";
import { badge, choose, count, field, live, moment, table } from "./parts.js";
import { place } from "./place.js";

export function openClusters(root, page) {
  const list = el("div", {}, el("p", { class: "soft" }, "Looking at the clusters…"));
  root.append(list);
  live(page, list, "clusters", () => ({}), renderClusters);
}

function renderClusters(document) {
  const bad = (number) => (number ? el("span", { class: "bad" }, count(number)) : count(number));
  return table("Clusters", [
    { head: "Cluster", cell: (one) => el("a", { href: address("overview", {}, one.name) }, one.name) },
    { head: "State", cell: stateOf },
    { head: "Brokers", number: true, cell: (one) => (one.live === one.brokers ? count(one.live) : `${count(one.live)} of ${count(one.brokers)}`) },
    { head: "Topics", number: true, cell: (one) => count(one.topics) },
    { head: "Partitions", number: true, cell: (one) => count(one.partitions) },
    { head: "Offline", number: true, cell: (one) => bad(one.offline) },
    { head: "Under-replicated", number: true, cell: (one) => bad(one.under_replicated) },
    { head: "Groups", number: true, cell: (one) => count(one.groups) },
    { head: "Address", cell: (one) => one.bootstrap },
  ], document.clusters, "There is no cluster.");
}

// A cluster that does not answer has the figures of its last answer.
function stateOf(cluster) {
  if (cluster.login) return el("span", { class: "soft" }, "log in first");
  if (cluster.error) {
    return [badge("silent"), ` ${cluster.error}`, cluster.asked_ms && el("p", { class: "soft" }, `last seen ${moment(cluster.asked_ms)}`)];
  }
  return cluster.verdict ? badge(cluster.verdict) : el("span", { class: "soft" }, "asking…");
}

// The same page of another cluster: as its topics after those of this one.
export function switcher(clusters, tab) {
  const options = [["", "all clusters"], ...clusters.map((one) => [one.name, one.name])];
  const chosen = choose(options, place.cluster);
  const page = tab === "clusters" ? "overview" : tab;
  return el("form", {
    class: "row switcher",
    onsubmit: (event) => {
      event.preventDefault();
      location.hash = chosen.value ? address(page, {}, chosen.value) : "#/clusters";
    },
  }, field("Cluster", chosen), el("button", { type: "submit" }, "Go"));
}
