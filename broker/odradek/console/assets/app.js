// The router: one page for each address behind "#/". A page that is left ends all that it asks and reads.
//
// Where there are several clusters, an address of a page begins with its cluster: "#/clusters/NAME/topics".

import { openAdministration } from "./administration.js";
import { ask } from "./api.js";
import { openClusters, switcher } from "./clusters.js";
import { address, el, replace } from "./dom.js";
import { openGroup, openGroups } from "./groups.js";
import { logout, openLogin } from "./login.js";
import { openOverview } from "./overview.js";
import { alertBox, moment } from "./parts.js";
import { place } from "./place.js";
import { openRecords } from "./records.js";
import { openTopic, openTopics } from "./topics.js";

const PAGES = {
  clusters: { open: openClusters, title: () => "Clusters", tab: "clusters" },
  overview: { open: openOverview, title: () => "Overview", tab: "overview" },
  topics: { open: openTopics, title: () => "Topics", tab: "topics" },
  topic: { open: openTopic, title: (fields) => `Topic ${fields.topic ?? ""}`, tab: "topics" },
  records: { open: openRecords, title: (fields) => (fields.topic ? `Records of ${fields.topic}` : "Records"), tab: "records" },
  groups: { open: openGroups, title: () => "Groups", tab: "groups" },
  administration: { open: openAdministration, title: () => "Administration", tab: "administration" },
  group: { open: openGroup, title: (fields) => `Group ${fields.group ?? ""}`, tab: "groups" },
};
const root = document.getElementById("page");
const status = document.getElementById("status");
let leaving = new AbortController();
let about = { may_change: false, clusters: [] };

function parse() {
  const [path, query = ""] = location.hash.replace(/^#\//, "").split(/\?(.*)/s);
  const fields = Object.fromEntries(new URLSearchParams(query));
  if (about.clusters.length < 2) {
    const name = path.split("/").at(-1);
    return { name: name in PAGES && name !== "clusters" ? name : "overview", fields, cluster: about.clusters[0] };
  }
  const [, chosen, name] = path.match(/^clusters\/([^/]+)\/([a-z]+)$/) ?? [];
  const cluster = about.clusters.find((one) => one.name === chosen);
  if (!cluster || name === "clusters") return { name: "clusters", fields };
  return { name: name in PAGES ? name : "overview", fields, cluster };
}

function show(isFirst) {
  const { name, fields, cluster } = parse();
  const { open, title, tab } = PAGES[name];
  leaving.abort();
  leaving = new AbortController();
  place.cluster = about.clusters.length > 1 && cluster ? cluster.name : "";
  showHeader(tab, cluster);
  const heading = el("h1", { tabindex: "-1" }, title(fields));
  const content = el("div");
  const page = {
    signal: leaving.signal,
    fields,
    about,
    // The address follows what is chosen on the page, without a new page.
    update(changes) {
      Object.assign(fields, changes);
      history.replaceState(null, "", address(name, fields));
    },
    note(askedMs) {
      if (askedMs && cluster) replace(status, `As of ${moment(askedMs)}, from ${cluster.bootstrap}`);
    },
  };
  document.title = `${title(fields)}${place.cluster ? ` of ${place.cluster}` : ""} - Odradek console`;
  replace(status);
  replace(root, heading, content);
  try {
    if (cluster?.login && !cluster.user) openLogin(content, cluster, restart);
    else open(content, page);
  } catch (failure) {
    replace(content, alertBox(String(failure)));
  }
  if (!isFirst) heading.focus({ preventScroll: true });
  scrollTo(0, 0);
}

// The pages of the cluster that is shown; without one there is only the overview of all.
function showHeader(tab, cluster) {
  for (const one of document.querySelectorAll("#pages a")) {
    one.setAttribute("href", address(one.dataset.page));
    one.parentElement.hidden = !cluster;
    if (one.dataset.page === tab) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  document.getElementById("home").setAttribute("href", about.clusters.length > 1 ? "#/clusters" : "#/overview");
  replace(document.getElementById("switcher"), about.clusters.length > 1 && switcher(about.clusters, tab));
  replace(document.getElementById("about"), cluster?.bootstrap, about.may_change ? " · changes are allowed " : " ",
    cluster?.user && logout(cluster, restart));
}

// What the console says of itself: the clusters, and as whom the viewer is logged in there.
async function restart() {
  try {
    about = await ask("about");
  } catch (failure) {
    replace(root, alertBox(failure.message));
  }
  show(true);
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  root.focus();
});
addEventListener("hashchange", () => show(false));
addEventListener("login-needed", restart);
await restart();
