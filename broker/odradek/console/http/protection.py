"""What protects the console from pages of others in the same browser, without a login and without cookies.

- The Host has to be a name of the console. A page whose name an attacker lets point to this machine has another.
- Questions come from the console's own pages: a browser says so by Sec-Fetch-Site. Links from elsewhere may open the
  first page, which asks nothing by itself.
- Changes need the Origin of the console besides, and a header that no form of another page can send.
- /healthz alone is answered under any name. A probe asks by the pod's address, and the answer says nothing but that
  something listens.
- Each answer forbids a browser all but the console's own files: no script, style or frame of others, and no text that
  becomes markup.

It does not protect from a person who reaches the port, and sees all that the console's user may see.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# A header that a page of another site cannot send without being asked first, which is refused.
CHANGE_HEADER: Final = "X-Odradek-Console"
LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
API: Final = "/api/"
HEALTH: Final = "/healthz"
# Of --host, where the console listens on each address: it is the name of none.
_EVERYWHERE: Final = ("", "0.0.0.0", "::")

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_SAFE_METHODS: Final = ("GET", "HEAD")
_MISDIRECTED: Final = 421
_OWN: Final = "same-origin"
# A person who types the address, or opens a bookmark.
_TYPED: Final = "none"

HEADERS: Final = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            # No text can become markup or a script, whatever a page of ours does.
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class BrowserGuard:
    """Refuses requests that are not from the console's own pages. `names` are those of --host and --allow-host."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {*LOOPBACK_NAMES, *(_host_of(name) for name in names if name not in _EVERYWHERE)}

    async def set_headers(self, _: web.Request, response: web.StreamResponse) -> None:
        """Add the headers that each answer has."""
        response.headers.update(HEADERS)

    def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """Why a request is not answered, with its status; None where it is."""
        if request.path == HEALTH and request.method in _SAFE_METHODS:
            return None
        hosts = request.headers.getall("Host", [])
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None:
            return 400, "the request has no Host, or one that is no name"
        if name not in self._names:
            return (
                _MISDIRECTED,
                f"this console does not answer to the name {name}; start it with --allow-host {name} where it is yours",
            )
        site, is_change = request.headers.get("Sec-Fetch-Site"), request.method not in _SAFE_METHODS
        if (is_change or request.path.startswith(API)) and site not in (None, _OWN, _TYPED):
            return 403, "the console is asked by its own pages alone"
        if is_change:
            return self._refusal_of_change(request, hosts[0], site)
        return None

    def _refusal_of_change(self, request: web.Request, host: str, site: str | None) -> tuple[int, str] | None:
        origin = request.headers.get("Origin")
        if site != _OWN and origin is None:
            return 403, "a change needs the Origin of the console's own pages"
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403, "a change comes from the console's own pages alone"
        if CHANGE_HEADER not in request.headers:
            return 403, f"a change needs the header {CHANGE_HEADER}"
        return None


def host_name(header: str) -> str | None:
    """The name in a Host header without its port, in lower case; None for what is no name."""
    match = _HOST.fullmatch(header)
    return None if match is None else match[1].lower().rstrip(".")


def _host_of(name: str) -> str:
    """A name or address as a Host header has it: an address of IPv6 in brackets."""
    bare = name.strip("[]").lower().rstrip(".")
    return f"[{bare}]" if ":" in bare else bare
