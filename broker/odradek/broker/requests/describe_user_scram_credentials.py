"""DescribeUserScramCredentials: which mechanisms users have passwords for, never the credentials (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from odradek.broker.requests.context import AnyContext
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import RequestError, ResourceNotFound
from odradek.foundation.security_errors import DuplicateResource
from odradek.security.authentication.scram_users import describe_credentials
from odradek.wire.protocol.errors import error_code, error_message
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import DescribeUserScramCredentialsRequest

# Kafka's numbers of the mechanisms.
MECHANISM_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NO_TEXTS: Final[Mapping[str, str]] = {}


def handle(request: DescribeUserScramCredentialsRequest, context: AnyContext) -> Message:
    configs = context.broker.images.current.client_configs
    counts = Counter(one.name for one in request.users or ())
    if not counts:
        counts = Counter(
            sorted(
                entity.user
                for entity, texts in configs.items()
                if entity.user and entity.client_id is None and describe_credentials(texts)
            )
        )
    return context.response(
        results=[
            _result(
                name,
                describe_credentials(configs.get(ClientEntity(user=name), _NO_TEXTS)),
                is_twice=count > 1 or name in context.named_twice,
            )
            for name, count in counts.items()
        ]
    )


def _result(name: str, found: dict[str, int], *, is_twice: bool) -> dict[str, object]:
    error: RequestError | None = None
    if is_twice:
        error = DuplicateResource(f"Cannot describe SCRAM credentials for the same user twice: {name}")
    elif not found:
        error = ResourceNotFound(f"Attempt to describe a user credential that does not exist: {name}")
    shown = {} if error is not None else found
    return {
        "user": name,
        "error_code": error_code(error),
        "error_message": error_message(error) or "",
        "credential_infos": [
            {"mechanism": MECHANISM_NUMBERS[mechanism], "iterations": iterations}
            for mechanism, iterations in shown.items()
        ],
    }
