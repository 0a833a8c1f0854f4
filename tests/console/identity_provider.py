"""An identity provider in the test's process: discovery, keys, and codes that it exchanges for tokens."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from odradek.console.oidc import OidcSettings
from tests.support.tokens import Provider

CLIENT_ID = "the console"
CLIENT_SECRET = "a:secret/of it"


class IdentityProvider:
    """`provider` signs. `identity` and `access` are claims that replace those of the next tokens."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.issuer = ""
        self.identity: dict[str, Any] = {}
        self.access: dict[str, Any] = {}
        self.answer: dict[str, Any] = {}
        self.key_id = "first"
        self.forms: list[dict[str, str]] = []
        self.logins: list[str | None] = []
        self._codes: dict[str, dict[str, str]] = {}

    def settings(self, redirect_url: str) -> OidcSettings:
        return OidcSettings(self.issuer, CLIENT_ID, redirect_url, "openid profile", CLIENT_SECRET)

    def authorize(self, url: str) -> dict[str, str]:
        """A person logs in at the address that the browser was sent to: the fields that it brings back."""
        assert url.startswith(f"{self.issuer}/authorize?")
        asked = {name: value for name, (value,) in parse_qs(urlsplit(url).query, strict_parsing=True).items()}
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT_ID)
        assert (asked["scope"], asked["code_challenge_method"]) == ("openid profile", "S256")
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return {"state": asked["state"], "code": code}

    async def discover(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                **self.answer.get("discovery", {}),
            }
        )

    async def publish_keys(self, _: web.Request) -> web.Response:
        return web.Response(body=self.provider.key_set(), content_type="application/json")

    async def exchange(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        self.logins.append(request.headers.get("Authorization"))
        asked = self._codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if asked is None or asked["code_challenge"] != challenge.decode().rstrip("="):
            return web.json_response({"error": "invalid_grant"}, status=400)
        assert (form["grant_type"], form["redirect_uri"]) == ("authorization_code", asked["redirect_uri"])
        identity = {"iss": self.issuer, "aud": CLIENT_ID, "nonce": asked["nonce"], **self.identity}
        body = {
            "token_type": "Bearer",
            "expires_in": 600,
            "id_token": self.provider.token(key_id=self.key_id, **identity),
            "access_token": self.provider.token(**self.access),
            **self.answer.get("token", {}),
        }
        return web.Response(text=json.dumps(body), content_type="application/json")


@asynccontextmanager
async def served_provider(provider: Provider) -> AsyncIterator[IdentityProvider]:
    found = IdentityProvider(provider)
    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", found.discover)
    application.router.add_get("/keys", found.publish_keys)
    application.router.add_post("/token", found.exchange)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.issuer = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        await runner.cleanup()
