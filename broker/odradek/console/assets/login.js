// A viewer's own login at a cluster: by name and password, or at an identity provider.

import { send } from "./api.js";
import { el, replace } from "./dom.js";
import { alertBox, field } from "./parts.js";

export function openLogin(root, cluster, done) {
  if (cluster.login === "provider") {
    root.append(el("p", {}, "This cluster asks an identity provider who you are."),
      el("p", {}, el("a", { href: `/login?cluster=${encodeURIComponent(cluster.name)}` }, "Log in at the identity provider")));
    return;
  }
  const user = el("input", { name: "user", autocomplete: "username", required: true });
  const password = el("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const button = el("button", { type: "submit" }, "Log in");
  const result = el("div", { "aria-live": "polite" });
  root.append(
    el("p", {}, "Log in as a user of this cluster. You see and change what this user may."),
    el("form", {
      class: "row",
      onsubmit: async (event) => {
        event.preventDefault();
        button.disabled = true;
        try {
          await send("login", { cluster: cluster.name, user: user.value, password: password.value });
          await done();
        } catch (failure) {
          replace(result, alertBox(failure.message));
          password.value = "";
          password.focus();
        } finally {
          button.disabled = false;
        }
      },
    }, field("User", user), field("Password", password), button),
    result);
  user.focus();
}

export function logout(cluster, done) {
  return el("button", {
    type: "button",
    onclick: async () => {
      await send("logout", {});
      await done();
    },
  }, `Log out ${cluster.user}`);
}
