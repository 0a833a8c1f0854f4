"""An identity provider for tests: its keys, the key set that it publishes, and the tokens that it signs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "kafka"


class Provider:
    """Keys by id. `rsa` keys sign with RS256, others with ES256."""

    def __init__(self, *key_ids: str) -> None:
        self.keys: dict[str, PrivateKeyTypes] = {}
        for key_id in key_ids or ("first",):
            self.add(key_id)

    def add(self, key_id: str) -> None:
        if key_id.startswith("rsa"):
            self.keys[key_id] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        else:
            self.keys[key_id] = ec.generate_private_key(ec.SECP256R1())

    def key_set(self) -> bytes:
        """What it publishes."""
        return json.dumps({"keys": [self._public(key_id) for key_id in self.keys]}).encode()

    def _public(self, key_id: str) -> dict[str, Any]:
        key: Any = self.keys[key_id]
        kind = RSAAlgorithm if key_id.startswith("rsa") else ECAlgorithm
        return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}

    def write(self, path: Path) -> str:
        """Publish in a file, whole; its address."""
        staged = path.with_suffix(".staged")
        staged.write_bytes(self.key_set())
        staged.rename(path)
        return path.as_uri()

    def token(
        self, user: str = "alice", *, key_id: str = "first", life_seconds: float = 600, **claims: Any
    ) -> str:
        now = time.time()
        body = {
            "sub": user,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": int(now),
            "exp": now + life_seconds,
            "scope": "all",
            **claims,
        }
        body = {name: value for name, value in body.items() if value is not None}
        algorithm = "RS256" if key_id.startswith("rsa") else "ES256"
        key: Any = self.keys[key_id]
        return jwt.encode(body, key, algorithm=algorithm, headers={"kid": key_id})
