"""The logins to a ZooKeeper that the operator runs: that of brokers and controllers, and its own.

ZooKeeper keeps no users. A client that shows the password of a node's owner is the owner (digest authentication). The
operator logs in as ZooKeeper's `super`, for whom access lists do not count. Each server is started with the digest of
that password.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

USER: Final = "odradek"
SUPER: Final = "super"
SERVERS_FILE: Final = "servers.cfg"
BROKERS_FILE: Final = "login.properties"
PASSWORD_FILE: Final = "password"
SUPER_PASSWORD_FILE: Final = "super-password"
# 192 bits, in letters and digits: nothing has to escape them.
_PASSWORD_BYTES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperLogin:
    """Both passwords of one ensemble."""

    password: str
    super_password: str

    def __repr__(self) -> str:
        return "ZookeeperLogin(hidden)"

    @classmethod
    def make(cls) -> ZookeeperLogin:
        return cls(
            password=secrets.token_hex(_PASSWORD_BYTES), super_password=secrets.token_hex(_PASSWORD_BYTES)
        )

    @classmethod
    def read(cls, files: Mapping[str, bytes]) -> ZookeeperLogin | None:
        """The logins in a Secret's files; None where they are not there."""
        password, super_password = files.get(PASSWORD_FILE), files.get(SUPER_PASSWORD_FILE)
        if not password or not super_password:
            return None
        return cls(
            password=password.decode(errors="replace"),
            super_password=super_password.decode(errors="replace"),
        )

    def files(self) -> dict[str, str]:
        """The content of the Secret. Pods mount one file of it each."""
        brokers = {
            "zookeeper.digest.user": USER,
            "zookeeper.digest.password": self.password,
            "zookeeper.set.acl": "true",
        }
        return {
            "username": USER,
            PASSWORD_FILE: self.password,
            SUPER_PASSWORD_FILE: self.super_password,
            BROKERS_FILE: "".join(f"{key}={value}\n" for key, value in brokers.items()),
            SERVERS_FILE: f"DigestAuthenticationProvider.superDigest={_digest_id(SUPER, self.super_password)}\n",
        }

    @property
    def owner(self) -> str:
        """The id of brokers and controllers in access lists."""
        return _digest_id(USER, self.password)

    @property
    def super_credential(self) -> str:
        """The operator's user and password, as digest authentication takes them."""
        return f"{SUPER}:{self.super_password}"

    @property
    def fingerprint(self) -> str:
        """A text that is another one for other passwords, and does not show them."""
        return hashlib.sha256(f"{self.password}\0{self.super_password}".encode()).hexdigest()[:16]


def _digest_id(user: str, password: str) -> str:
    """As ZooKeeper's DigestAuthenticationProvider makes it."""
    return f"{user}:{base64.b64encode(hashlib.sha1(f'{user}:{password}'.encode()).digest()).decode()}"
