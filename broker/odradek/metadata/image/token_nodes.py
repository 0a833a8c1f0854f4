"""Encodes and decodes the nodes of delegation tokens, as Kafka's with ZooKeeper.

/delegation_token/tokens/ID    {"version":3,"owner":"User:a","tokenRequester":"User:b","renewers":["User:c"],
                                "issueTimestamp":MS,"maxTimestamp":MS,"expiryTimestamp":MS,"tokenId":ID}
"""

from __future__ import annotations

from odradek.foundation.registry_errors import StoreError
from odradek.metadata.image import paths
from odradek.metadata.image.nodes import read_json, write_json
from odradek.security.authentication.delegation_tokens import DelegationToken


def path_of(token_id: str) -> str:
    return f"{paths.TOKENS}/{token_id}"


def write_token(token: DelegationToken) -> bytes:
    return write_json(
        {
            "version": 3,
            "owner": token.owner,
            "tokenRequester": token.requester,
            "renewers": list(token.renewers),
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.id,
        }
    )


def read_token(path: str, data: bytes) -> DelegationToken:
    """Raises StoreError."""
    found = read_json(path, data)
    try:
        owner = str(found["owner"])
        return DelegationToken(
            str(found["tokenId"]),
            owner,
            str(found.get("tokenRequester", owner)),
            tuple(str(one) for one in found["renewers"]),
            int(found["issueTimestamp"]),
            int(found["maxTimestamp"]),
            int(found["expiryTimestamp"]),
        )
    except (KeyError, TypeError, ValueError) as failure:
        raise StoreError(f"the delegation token at {path} cannot be read") from failure
