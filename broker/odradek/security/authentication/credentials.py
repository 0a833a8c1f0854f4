"""The login of a client, read from Kafka's keys: `sasl.mechanism`, `sasl.jaas.config`, `sasl.oauthbearer.*`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.protection import SASL_MECHANISMS
from odradek.security.authentication.exchange import ClientExchange
from odradek.security.authentication.jaas import parse_jaas
from odradek.security.authentication.oauth_documents import (
    TokenOptions,
    TokenSource,
    check_address,
    hide_query,
    is_file,
)
from odradek.security.authentication.oauthbearer import OauthClient
from odradek.security.authentication.plain import PlainClient
from odradek.security.authentication.scram import ScramClient, check_user_name

if TYPE_CHECKING:
    from odradek.foundation.settings.declaration import SettingValue

_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT: Final = "sasl.oauthbearer.client.credentials.client"


class Credentials(NamedTuple):
    """A login: a user with a password, or a source of tokens. The password is never shown.

    With `is_token` the user is the id of a delegation token, and the password its HMAC in base64.
    """

    mechanism: str
    user: str = ""
    password: str = ""
    is_token: bool = False
    tokens: TokenSource | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.user})"

    @property
    def shown(self) -> str:
        """The user or the source of tokens, for people."""
        if self.tokens is not None:
            return f"the token of {hide_query(self.tokens.options.url)}"
        return f"the delegation token {self.user!r}" if self.is_token else repr(self.user)

    @property
    def what_to_check(self) -> str:
        return "token" if self.tokens is not None else "user and the password"

    async def new_exchange(self) -> ClientExchange:
        """The client's side of a new login. Raises TokenUnavailable."""
        if self.tokens is not None:
            return OauthClient(await self.tokens.token())
        if self.mechanism == "PLAIN":
            return PlainClient(self.user, self.password)
        return ScramClient(self.mechanism, self.user, self.password, is_token=self.is_token)


def client_credentials(value: Callable[[str], SettingValue], *, name: str, mechanism_key: str) -> Credentials:
    """The login that `value` gives by key. Raises SettingError that names `name`."""
    mechanism = value(mechanism_key)
    if mechanism not in SASL_MECHANISMS:
        raise SettingError(
            f"{name}: {mechanism_key}={mechanism or 'GSSAPI'} cannot be used; choose from {', '.join(SASL_MECHANISMS)}"
        )
    text = value("sasl.jaas.config")
    if mechanism == "OAUTHBEARER":
        return Credentials(mechanism, tokens=_tokens(value, name, text))
    if not text:
        raise SettingError(
            f"{name}: a login with {mechanism} needs a user and a password in sasl.jaas.config, as "
            '…LoginModule required username="…" password="…";'
        )
    options = parse_jaas(text, key=f"{name}: sasl.jaas.config", mechanism=mechanism).options
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise SettingError(f"{name}: sasl.jaas.config needs username and password")
    if mechanism != "PLAIN":
        try:
            check_user_name(user)
        except SettingError as error:
            raise SettingError(f"{name}: sasl.jaas.config: {error}") from error
    is_token = mechanism != "PLAIN" and options.get("tokenauth", "").lower() == "true"
    return Credentials(mechanism, user, password, is_token)


def _tokens(value: Callable[[str], SettingValue], name: str, text: str | None) -> TokenSource:
    """The source of tokens, by `sasl.oauthbearer.*` and the older options of the login module."""
    key = f"{name}: sasl.jaas.config"
    options = parse_jaas(text, key=key, mechanism="OAUTHBEARER").options if text else {}
    url = value(_TOKEN_URL)
    if not url:
        raise SettingError(
            f"{name}: OAUTHBEARER needs {_TOKEN_URL}, a file with a token or an endpoint that gives one"
        )
    check_address(url, key=f"{name}: {_TOKEN_URL}")
    client_id = value(f"{_CLIENT}.id") or options.get("clientId", "")
    client_secret = value(f"{_CLIENT}.secret") or options.get("clientSecret", "")
    if not is_file(url) and not (client_id and client_secret):
        raise SettingError(f"{name}: a token from {hide_query(url)} needs {_CLIENT}.id and {_CLIENT}.secret")
    scope = value("sasl.oauthbearer.scope") or options.get("scope", "")
    return TokenSource(TokenOptions(url, client_id, client_secret, scope))
