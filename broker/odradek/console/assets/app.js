// The router: one page for each address behind "#/". A page that is left ends all that it asks and reads.

import { openAdministration } from "./administration.js";
import { ask } from "./api.js";
import { address, el, replace } from "./dom.js";
import { openGroup, openGroups } from "./groups.js";
import { openOverview } from "./overview.js";
import { alertBox, moment } from "./parts.js";
import { openRecords } from "./records.js";
import { openTopic, openTopics } from "./topics.js";

const PAGES = {
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
let about = { may_change: false, bootstrap: "" };

function parse() {
  const [name, query = ""] = location.hash.replace(/^#\//, "").split(/\?(.*)/s);
  return { name: name in PAGES ? name : "overview", fields: Object.fromEntries(new URLSearchParams(query)) };
}

function show(isFirst) {
  const { name, fields } = parse();
  const { open, title, tab } = PAGES[name];
  leaving.abort();
  leaving = new AbortController();
  for (const one of document.querySelectorAll("#pages a")) {
    if (one.dataset.page === tab) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
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
      if (askedMs) replace(status, `As of ${moment(askedMs)}, from ${about.bootstrap}`);
    },
  };
  document.title = `${title(fields)} - Odradek console`;
  replace(status);
  replace(root, heading, content);
  try {
    open(content, page);
  } catch (failure) {
    replace(content, alertBox(String(failure)));
  }
  if (!isFirst) heading.focus({ preventScroll: true });
  scrollTo(0, 0);
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  root.focus();
});
addEventListener("hashchange", () => show(false));
try {
  about = await ask("about");
  replace(document.getElementById("about"), about.bootstrap, about.may_change ? " · changes are allowed" : "");
} catch (failure) {
  replace(root, alertBox(failure.message));
}
show(true);
