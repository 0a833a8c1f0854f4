// Forms that change the cluster. Each shows first what it would do, and the command line that does the same.

import { act } from "./api.js";
import { el, replace } from "./dom.js";
import { alertBox, count, table } from "./parts.js";

// `fields` are labelled controls, `body` makes the request of them, `done` is called after the change.
export function actionForm(name, title, fields, body, done, { isDangerous = false } = {}) {
  const result = el("div", { "aria-live": "polite" });
  const execute = el("button", { type: "button", disabled: true, class: isDangerous && "danger", onclick: () => send(false) }, "Do it");
  const preview = el("button", { type: "submit" }, "Preview");
  const form = el("form", {
    class: "row",
    onsubmit: (event) => { event.preventDefault(); send(true); },
    // What was shown is what is done: after an edit it is shown again first.
    oninput: () => { execute.disabled = true; },
  }, fields, preview, execute);
  async function send(isPreview) {
    execute.disabled = true;
    preview.disabled = true;
    try {
      const document = await act(name, { ...body(), preview: isPreview });
      replace(result, render(document));
      if (isPreview) execute.disabled = false;
      else done(document);
    } catch (failure) {
      replace(result, alertBox(failure.message));
    } finally {
      preview.disabled = false;
    }
  }
  return el("details", {}, el("summary", {}, title), form, result);
}

function render(document) {
  const words = document.done ? "Done. The same at a terminal:" : "Nothing is changed yet. The same at a terminal:";
  return [
    el("p", { class: document.done && "good" }, words),
    el("pre", { class: "command" }, el("code", {}, document.command)),
    document.warning && el("p", { class: "warn" }, document.warning),
    document.offset !== undefined && el("p", {}, `Written to partition ${document.partition} at offset ${count(document.offset)}.`),
    document.rows && table("Offsets", [
      { head: "Partition", number: true, cell: (one) => one.partition },
      { head: document.done ? "Before" : "Now", number: true, cell: (one) => count(one.before) },
      { head: document.done ? "Now" : "Then", number: true, cell: (one) => count(one.after) },
    ], document.rows, "The topic has no partition."),
  ];
}
