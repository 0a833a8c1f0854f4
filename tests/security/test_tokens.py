"""Which tokens of OAUTHBEARER are good for a login: the signature counts, and what the settings ask for."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.broker_settings import Settings
from odradek.security.authentication.exchange import LoginRefused
from odradek.security.authentication.listener import listener_oauth
from odradek.security.authentication.oauth_documents import KeySet, KeySetOptions
from odradek.security.authentication.oauthbearer import (
    INVALID_TOKEN,
    KeySetUnreadable,
    OauthExchange,
    parse_key_set,
)
from tests.support.tokens import AUDIENCE, ISSUER, Provider

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def settings(url: str, **more: str) -> Settings:
    return Settings(
        {
            "listeners": "L://127.0.0.1:0",
            "listener.security.protocol.map": "L:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": url,
            "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            **{f"sasl.oauthbearer.{key.replace('_', '.')}": text for key, text in more.items()},
        }
    )


@pytest.fixture
def provider() -> Provider:
    return Provider("first", "rsa")


@pytest.fixture
def exchange(provider: Provider, tmp_path: Path) -> Callable[..., OauthExchange]:
    url = provider.write(tmp_path / "keys.json")

    def new(**more: str) -> Any:
        return listener_oauth(settings(url, **more), "L")[0]()

    return new


def message(token: str, header: str = "n,,", extensions: str = "") -> bytes:
    return f"{header}\1auth=Bearer {token}\1{extensions}\1".encode()


@pytest.mark.parametrize("key_id", ["first", "rsa"])
def test_a_good_token_is_a_login_until_it_ends(
    provider: Provider, exchange: Callable[..., OauthExchange], key_id: str
) -> None:
    answer, login = exchange().answer(message(provider.token("älice", key_id=key_id, life_seconds=60)))
    assert answer == b""
    assert login is not None
    assert login.user == "älice"
    assert 50_000 < (login.lifetime_ms or 0) <= 60_000


def test_extensions_and_the_own_name_are_allowed(
    provider: Provider, exchange: Callable[..., OauthExchange]
) -> None:
    data = message(provider.token(), "n,a=alice,", "logicalCluster=x\1")
    assert exchange().answer(data)[1] is not None


def _encoded(value: dict[str, Any]) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def _claims(**changes: Any) -> dict[str, Any]:
    return {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": 0, "exp": time.time() + 60, **changes}


def _unsigned(provider: Provider) -> str:
    return b".".join((_encoded({"alg": "none", "kid": "first"}), _encoded(_claims()), b"")).decode()


def _with_the_public_key_as_secret(provider: Provider) -> str:
    """HS256, with what is public as the secret."""
    signed = _encoded({"alg": "HS256", "kid": "rsa"}) + b"." + _encoded(_claims())
    proof = hmac.digest(provider.key_set(), signed, hashlib.sha256)
    return (signed + b"." + base64.urlsafe_b64encode(proof).rstrip(b"=")).decode()


def _of_another_provider(provider: Provider) -> str:
    return Provider("first").token()


def _cut(provider: Provider) -> str:
    return provider.token()[:-5]


def _with_other_claims(provider: Provider) -> str:
    head, _, proof = provider.token().split(".")
    return ".".join((head, _encoded(_claims(sub="admin")).decode(), proof))


def _with_unknown_key(provider: Provider) -> str:
    other = Provider("second")
    return other.token(key_id="second")


def _nested(provider: Provider) -> str:
    """A header whose arrays are deeper than a parser goes."""
    return ".".join((base64.urlsafe_b64encode(b"[" * 6000).decode(), *provider.token().split(".")[1:]))


FORGED = [
    _nested,
    _unsigned, _with_the_public_key_as_secret, _of_another_provider, _cut, _with_other_claims, _with_unknown_key
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGED, ids=lambda one: one.__name__)
def test_a_forged_token_is_refused_after_the_challenge(
    provider: Provider, exchange: Callable[..., OauthExchange], forge: Callable[[Provider], str]
) -> None:
    login = exchange()
    token = forge(provider)
    assert login.answer(message(token)) == (INVALID_TOKEN, None)
    with pytest.raises(LoginRefused) as refused:
        login.answer(b"\1")
    assert token.rpartition(".")[0] not in str(refused.value)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": time.time() - 31},
        {"exp": None},
        {"iat": None},
        {"iat": time.time() + 3600},
        {"nbf": time.time() + 3600},
        {"aud": "somebody else"},
        {"aud": None},
        {"iss": "https://issuer.example.org"},
        {"iss": [ISSUER]},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"sub": ["alice"]},
        {"scope": {"a": 1}},
    ],
)
def test_a_token_that_says_something_else_is_refused(
    provider: Provider, exchange: Callable[..., OauthExchange], claims: dict[str, Any]
) -> None:
    said = {name: value for name, value in _claims(**claims).items() if value is not None}
    key: Any = provider.keys["first"]
    # Signed as text: PyJWT itself writes no such claims.
    token = jwt.api_jws.encode(json.dumps(said).encode(), key, algorithm="ES256", headers={"kid": "first"})
    assert exchange().answer(message(token)) == (INVALID_TOKEN, None)


def test_another_authorization_is_refused(provider: Provider, exchange: Callable[..., OauthExchange]) -> None:
    assert exchange().answer(message(provider.token(), "n,a=bob,")) == (INVALID_TOKEN, None)
    with pytest.raises(LoginRefused):
        exchange().answer(message(provider.token(), "n,a=andr\u00e9,"))


def test_the_user_may_be_in_another_claim(provider: Provider, exchange: Callable[..., OauthExchange]) -> None:
    login = exchange(sub_claim_name="client_id").answer(message(provider.token(client_id="loader")))[1]
    assert login is not None
    assert login.user == "loader"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1",
        b"n,,\1\1",
        b"n,,\1auth=Basic x\1\1",
        b"y,,\1auth=Bearer a.b.c\1\1",
        b"\xff",
        b"n,,\1auth=Bearer \1\1",
    ],
)
def test_what_is_no_message_is_refused_at_once(exchange: Callable[..., OauthExchange], data: bytes) -> None:
    with pytest.raises(LoginRefused):
        exchange().answer(data)


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}',
        b'{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}',
    ],
)
def test_a_set_without_a_usable_key_stops_the_start(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(KeySetUnreadable):
        parse_key_set(text)
    file = tmp_path / "keys"
    file.write_bytes(text)
    with pytest.raises(SettingError, match="no keys to check tokens with"):
        listener_oauth(settings(file.as_uri()), "L")


@pytest.mark.parametrize(
    ("url", "words"),
    [("", "no keys to check tokens"), ("/etc/passwd", "address as https"), ("ftp://a/b", "address as https")],
)
def test_a_listener_without_a_source_of_keys_does_not_start(url: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        listener_oauth(settings(url), "L")


def test_a_key_for_encryption_is_left_out(provider: Provider) -> None:
    document = json.loads(provider.key_set())
    document["keys"][0]["use"] = "enc"
    assert set(parse_key_set(json.dumps(document).encode())) == {"rsa"}


def test_a_key_is_rotated_without_a_restart(tmp_path: Path) -> None:
    provider = Provider("first")
    path = tmp_path / "keys.json"
    new, keys = listener_oauth(settings(provider.write(path)), "L")
    later = Provider("second")
    token = later.token(key_id="second")
    assert new().answer(message(token)) == (INVALID_TOKEN, None)
    later.write(path)
    keys.follow()
    assert new().answer(message(token))[1] is not None
    assert new().answer(message(provider.token())) == (INVALID_TOKEN, None)
    path.write_bytes(b"half a fi")
    keys.follow()
    assert new().answer(message(token))[1] is not None, "the keys stay while the new ones fail"


def test_an_address_that_fails_is_asked_again_after_a_growing_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = [100.0]
    asked: list[float] = []
    provider = Provider("first")
    is_up = [False]

    def read(url: str) -> bytes:
        asked.append(seconds[0])
        return provider.key_set() if is_up[0] else b"down"

    monkeypatch.setattr("odradek.security.authentication.oauth_documents.read_document", read)
    options = KeySetOptions("L", "https://issuer.example/keys", 3_600_000, 1000, 4000)
    keys = KeySet(options, now=lambda: seconds[0])
    for _ in range(20):
        keys.follow()
        seconds[0] += 1
    assert asked == [100, 101, 103, 107, 111, 115, 119]
    is_up[0] = True
    seconds[0] = 130
    keys.follow()
    assert keys.find("first") is not None
    # A client names keys that are not there: the address is asked at most each ten seconds.
    asked.clear()
    for _ in range(30):
        assert keys.find("nobody's") is None
        seconds[0] += 1
        keys.follow()
    assert asked == [140, 150, 160]
    asked.clear()
    seconds[0] += 3600
    keys.follow()
    assert len(asked) == 1
