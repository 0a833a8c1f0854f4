// Nodes of the page. All text becomes text nodes, never markup; letters that are not to be seen are shown as marks.

import { place } from "./place.js";

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// A control character, or one that turns the direction of a line, would hide what a name or a value says.
export function visible(text) {
  return text.replace(HIDDEN, (letter) => {
    const code = letter.codePointAt(0);
    return code < 32 ? String.fromCodePoint(0x2400 + code) : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
  });
}

const PROPERTIES = new Set(["value", "checked", "disabled", "selected"]);

// el("td", {class: "number"}, "12"); a property that begins with "on" is a listener.
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
}

// New content for a part of the page. A link that had the keyboard has it again.
export function replace(node, ...children) {
  const active = document.activeElement;
  const href = node.contains(active) ? active.getAttribute("href") : null;
  node.replaceChildren();
  append(node, children);
  if (href === null) return;
  for (const link of node.querySelectorAll("a")) {
    if (link.getAttribute("href") === href) {
      link.focus({ preventScroll: true });
      return;
    }
  }
}

// The address of a page of a cluster; fields without a value are left out.
export function address(page, fields = {}, cluster = place.cluster) {
  const given = Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return `#/${cluster ? `clusters/${cluster}/` : ""}${page}${query ? `?${query}` : ""}`;
}

export function link(page, fields, ...children) {
  return el("a", { href: address(page, fields) }, ...children);
}
