// What the pages ask of the console's process, and what they change.

import { place } from "./place.js";

export class Refused extends Error {}

function url(path, fields) {
  const given = Object.entries({ ...fields, cluster: place.cluster }).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return `/api/${path}${query ? `?${query}` : ""}`;
}

async function request(path, fields, options) {
  let response;
  try {
    response = await fetch(url(path, fields), { credentials: "same-origin", ...options });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Refused("the console's own process does not answer; is it running?");
  }
  if (!response.ok) {
    let words = `the console answered with status ${response.status}`;
    try {
      const document = await response.json();
      words = document.error ?? words;
      // The page that asked is replaced by one that asks for a login.
      if (document.login) dispatchEvent(new CustomEvent("login-needed"));
    } catch {
      // An answer without words of its own.
    }
    throw new Refused(words);
  }
  return response;
}

export async function ask(path, fields = {}, signal = undefined) {
  return (await request(path, fields, { signal })).json();
}

export async function act(name, body) {
  return send(`actions/${name}`, body);
}

export async function send(path, body) {
  const response = await request(path, {}, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Odradek-Console": "1" },
    body: JSON.stringify(body),
  });
  return response.json();
}

// Calls handle(name, document) for each event until the last one; ends when the signal says so.
export async function listen(path, fields, signal, handle) {
  const response = await request(path, fields, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const fieldsOfEvent = {};
      for (const line of event.split("\n")) {
        const colon = line.indexOf(": ");
        fieldsOfEvent[line.slice(0, colon)] = line.slice(colon + 2);
      }
      const document = JSON.parse(fieldsOfEvent.data);
      if (fieldsOfEvent.event === "failed") throw new Refused(document.error);
      handle(fieldsOfEvent.event, document);
    }
  }
}
