"""The password that a User's owner brings in a Secret. The operator reads that only where a label says so."""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.names import PASSWORD_LABEL
from odradek_operator.desired.security import decode_secret
from odradek_operator.gateways.kubernetes import metadata
from odradek_operator.gateways.secrets import Secrets, SecretTaken
from odradek_operator.resources.user import SecretKey

_LENGTH_MAX: Final = 256


class NoPassword(Exception):
    """There is no password that can be used; the text says why, and what to do."""


async def read_password(secrets: Secrets, namespace: str, source: SecretKey) -> str:
    """Raises NoPassword, KubernetesError."""
    name = source.name
    try:
        found = await secrets.read(namespace, name)
    except SecretTaken:
        # The API server's policy refuses what has no label.
        found = {}
    if found is None:
        raise NoPassword(
            f"there is no Secret {name} with the password: make it, or correct authentication.password"
        )
    labels = metadata(found).get("labels") or {} if found else {}
    if labels.get(PASSWORD_LABEL) != "true":
        raise NoPassword(f'the Secret {name} is not for the operator: label it {PASSWORD_LABEL}="true"')
    value = decode_secret(found).get(source.key)
    if not value:
        raise NoPassword(f"the Secret {name} has no password at the key {source.key}: put it there")
    try:
        password = value.decode("ascii")
    except UnicodeDecodeError:
        password = ""
    # Java reads a properties file as Latin-1, and a line break would end the value there.
    if not password.isprintable() or not 0 < len(password) <= _LENGTH_MAX or password != password.strip():
        raise NoPassword(
            f"the password at the key {source.key} of the Secret {name} cannot be used. Give 1 to {_LENGTH_MAX} "
            "printable ASCII characters, with no blank or line break at either end"
        )
    return password
