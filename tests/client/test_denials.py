"""The words of a denied request: principal, right, resource, and the line that grants it."""

from __future__ import annotations

import contextvars
import re
import shlex

import pytest

from odradek.cli.main import command_line
from odradek.client.denials import RESOURCES, describe_denial, note_answer
from odradek.client.errors import error_for
from odradek.foundation.errors import OdradekError
from odradek.network.network import SystemNetwork
from odradek.network.secured import ConnectionSecurity, SecureNetwork
from odradek.security.authentication.credentials import Credentials
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import BY_CODE
from tests.broker.requests import denied_groups, denied_topics
from tests.support.rights import NO_CLUSTER, NO_GROUP, NO_TOPIC, NO_TRANSACTION

TYPES = {
    NO_TOPIC: AclResourceType.TOPIC,
    NO_GROUP: AclResourceType.GROUP,
    NO_CLUSTER: AclResourceType.CLUSTER,
    NO_TRANSACTION: AclResourceType.TRANSACTIONAL_ID,
}
# Sent by brokers alone.
NOT_SENT = {
    (ApiKey.ALTER_PARTITION, NO_CLUSTER),
    (ApiKey.ALLOCATE_PRODUCER_IDS, NO_CLUSTER),
    (ApiKey.ADD_PARTITIONS_TO_TXN, NO_CLUSTER),
}
# Rights that others contain.
CONTAINED = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
NAMES = {"topic": "orders", "group": "billing", "transactional_id": "day"}


def needed_rights() -> dict[tuple[ApiKey, int], set[AclOperation]]:
    """By API and error: the rights on the resource of that error, as the broker's own tests have them."""
    found: dict[tuple[ApiKey, int], set[AclOperation]] = {}
    for api, _, _, denied, rights in (*denied_topics.ROWS, *denied_groups.ROWS):
        for code in denied & TYPES.keys():
            operations = {one.entry.operation for one in rights if one.pattern.type is TYPES[code]}
            if operations and (api, code) not in NOT_SENT:
                found.setdefault((api, code), set()).update(operations)
    return found


def denial(code: int, api: ApiKey, *, principal: str | None = "User:alice") -> OdradekError:
    """The error that a client makes of an answer with this code."""

    def make() -> OdradekError | None:
        note_answer(api, principal)
        return error_for(code, "Topic authorization failed.", about="topic 'orders'", **NAMES)

    made = contextvars.copy_context().run(make)
    assert made is not None
    return made


@pytest.mark.parametrize(("row", "operations"), needed_rights().items(), ids=str)
def test_the_right_is_the_one_that_the_broker_asks_for(
    row: tuple[ApiKey, int], operations: set[AclOperation]
) -> None:
    api, code = row
    words = str(denial(code, api))
    named = re.search(r"User:alice lacks the right ([a-z-]+) on ", words)
    assert named is not None, words
    right = AclOperation[named[1].upper().replace("-", "_")]
    assert operations & {right, *CONTAINED.get(right, ())}


def test_principal_right_resource_and_remedy_are_named() -> None:
    assert str(denial(NO_TOPIC, ApiKey.PRODUCE)) == (
        "User:alice lacks the right write on topic 'orders'; "
        "`odradek acls add --allow-principal User:alice --operation write --topic orders` grants it"
    )
    assert str(denial(NO_CLUSTER, ApiKey.CREATE_ACLS)) == (
        "User:alice lacks the right alter on the cluster; "
        "`odradek acls add --allow-principal User:alice --operation alter --cluster` grants it"
    )
    assert str(denial(NO_GROUP, ApiKey.JOIN_GROUP, principal=None)) == (
        "the principal of this connection lacks the right read on group 'billing'; "
        "`odradek acls add --allow-principal User:NAME --operation read --group billing` grants it"
    )


@pytest.mark.parametrize("row", needed_rights(), ids=str)
def test_the_line_is_a_command(row: tuple[ApiKey, int]) -> None:
    _, _, rest = str(denial(row[1], row[0], principal="User:CN=a b,O='x'")).partition("`odradek ")
    acls, add, *arguments = shlex.split(rest.partition("` grants")[0])
    group = command_line.get_command(None, acls)  # type: ignore[arg-type]
    verb = group.get_command(None, add)  # type: ignore[union-attr]
    context = verb.make_context("add", arguments)
    assert context.params["allow_principal"] == ("User:CN=a b,O='x'",)


def test_a_denial_of_an_unknown_kind_keeps_the_brokers_words() -> None:
    assert str(denial(NO_TOPIC, ApiKey.API_VERSIONS)) == "topic 'orders': Topic authorization failed."
    assert describe_denial(BY_CODE[36].kind or OdradekError, NAMES) is None
    assert set(RESOURCES) == {BY_CODE[code].kind for code in TYPES}


@pytest.mark.parametrize(
    ("credentials", "principal"),
    [
        (None, "User:ANONYMOUS"),
        (Credentials("SCRAM-SHA-512", "alice", "secret"), "User:alice"),
        (Credentials("SCRAM-SHA-512", "token-id", "hmac", is_token=True), None),
    ],
)
def test_a_connection_knows_its_principal_where_it_can(
    credentials: Credentials | None, principal: str | None
) -> None:
    security = ConnectionSecurity(None, credentials)
    assert SecureNetwork(SystemNetwork(), security, client_id="c").principal == principal
