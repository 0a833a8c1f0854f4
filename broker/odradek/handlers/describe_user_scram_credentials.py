"""DescribeUserScramCredentials: which mechanisms users have passwords for, never the credentials (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from odradek.foundation.errors import RequestError, ResourceNotFound
from odradek.foundation.login_errors import DuplicateResource
from odradek.handlers.context import RequestContext
from odradek.protocol.errors import error_code, error_message
from odradek.protocol.messages import Message
from odradek.protocol.requests.clients import DescribeUserScramCredentialsRequest
from odradek.security.scram_users import described

# Kafka's numbers of the mechanisms.
MECHANISM_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


def handle(request: DescribeUserScramCredentialsRequest, context: RequestContext) -> Message:
    known = {
        entity.user: found
        for entity, texts in context.broker.images.current.client_configs.items()
        if entity.user and entity.client_id is None and (found := described(texts))
    }
    counts = Counter(one.name for one in request.users or ()) or Counter(sorted(known))
    return context.response(results=[_result(name, count, known.get(name)) for name, count in counts.items()])


def _result(name: str, count: int, found: dict[str, int] | None) -> dict[str, object]:
    error: RequestError | None = None
    if count > 1:
        error = DuplicateResource(f"Cannot describe SCRAM credentials for the same user twice: {name}")
    elif found is None:
        error = ResourceNotFound(f"Attempt to describe a user credential that does not exist: {name}")
    shown = {} if error is not None or found is None else found
    return {
        "user": name,
        "error_code": error_code(error),
        "error_message": error_message(error) or "",
        "credential_infos": [
            {"mechanism": MECHANISM_NUMBERS[mechanism], "iterations": iterations}
            for mechanism, iterations in shown.items()
        ],
    }
