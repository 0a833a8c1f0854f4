"""Stories of access control lists: what is no ACL, what filters find, and how answers look in each version.

The broker and Apache Kafka have an authorizer, and the client is a super user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_versions import versions
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

_WITH_ACLS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_TOPIC, _GROUP, _CLUSTER = 2, 3, 4
_LITERAL, _PREFIXED = 3, 4
_READ, _WRITE, _ANY, _ALL = 3, 4, 1, 2
_DENY, _ALLOW = 2, 3


def creation(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type": _TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": _LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": _READ,
        "permission_type": _ALLOW,
        **changes,
    }


def acl_filter(**changes: Any) -> dict[str, Any]:
    """Every ACL, but for `changes`."""
    return {
        "resource_type_filter": _ANY,
        "resource_name_filter": None,
        "pattern_type_filter": _ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": _ANY,
        "permission_type": _ANY,
        **changes,
    }


def described_acls(wire: Wire, *, on: str = "main", **changes: Any) -> Any:
    """The error, or the ACLs in an order of ours; None when the connection is closed."""
    answer = wire.try_quietly(ApiKey.DESCRIBE_ACLS, 3, on=on, **acl_filter(**changes))
    if answer is None:
        return None
    if answer.error_code:
        return [int(answer.error_code), len(answer.resources)]
    return sorted(
        [
            *(int(one.resource_type), one.resource_name, int(one.pattern_type)),
            *(acl.principal, acl.host, int(acl.operation), int(acl.permission_type)),
        ]
        for one in answer.resources
        for acl in one.acls
    )


def settled_acls(wire: Wire, wanted: int) -> Any:
    return wait_until(
        f"{wanted} ACLs are there", lambda: described_acls(wire), lambda found: len(found) == wanted
    )


def acls_sweep(wire: Wire) -> None:
    for version in versions(ApiKey.CREATE_ACLS):
        name = f"orders-{version}"
        good, bad = creation(resource_name=name), creation(resource_name="")
        wire.ask(f"CREATE_ACLS {version}", ApiKey.CREATE_ACLS, version, creations=[good, bad])
        settled_acls(wire, 1)
        wire.ask(f"DESCRIBE_ACLS {version}", ApiKey.DESCRIBE_ACLS, version, **acl_filter())
        filters = [acl_filter(resource_name_filter=name), acl_filter(principal_filter="User:nobody")]
        wire.ask(f"DELETE_ACLS {version}", ApiKey.DELETE_ACLS, version, filters=filters)
        settled_acls(wire, 0)


def acls_story(wire: Wire) -> None:
    """What is no ACL, and what filters find."""
    wrong: Mapping[str, dict[str, Any]] = {
        "no name": {"resource_name": ""},
        "no resource type": {"resource_type": 0},
        "any resource type": {"resource_type": 1},
        "another resource type": {"resource_type": 99},
        "any pattern": {"resource_pattern_type": 1},
        "a pattern for filters": {"resource_pattern_type": 2},
        "another pattern": {"resource_pattern_type": 99},
        "a cluster of another name": {"resource_type": _CLUSTER, "resource_name": "mine"},
        "no principal": {"principal": ""},
        "a principal without a type": {"principal": "alice"},
        "any operation": {"operation": _ANY},
        "another operation": {"operation": 99},
        "any permission": {"permission_type": 1},
        "another permission": {"permission_type": 99},
    }
    for label, changes in wrong.items():
        wire.ask(f"wrong: {label}", ApiKey.CREATE_ACLS, 3, on=label, creations=[creation(**changes)])
    wire.answers["nothing was added"] = settled_acls(wire, 0)
    good = [
        creation(),
        creation(),
        creation(operation=_ALL, permission_type=_DENY, host="192.0.2.1"),
        creation(resource_name="or", resource_pattern_type=_PREFIXED, principal="User:*"),
        creation(resource_name="*", operation=_WRITE),
        creation(resource_type=_GROUP, resource_name="audit"),
        creation(resource_type=_CLUSTER, resource_name="kafka-cluster", operation=_ALL),
    ]
    answer = wire.ask_quietly(ApiKey.CREATE_ACLS, 3, creations=good)
    wire.answers["added"] = [int(one.error_code) for one in answer.results]
    wire.answers["all"] = settled_acls(wire, 6)
    filters: Mapping[str, dict[str, Any]] = {
        "a name": {"resource_name_filter": "orders"},
        "what matches a name": {"resource_name_filter": "orders", "pattern_type_filter": 2},
        "literal ones": {"pattern_type_filter": _LITERAL},
        "prefixed ones": {"pattern_type_filter": _PREFIXED},
        "a principal": {"principal_filter": "User:*"},
        "a host": {"host_filter": "192.0.2.1"},
        "an operation": {"operation": _ALL},
        "denials": {"permission_type": _DENY},
        "groups": {"resource_type_filter": _GROUP},
        "no resource type": {"resource_type_filter": 0},
        "another operation": {"operation": 99},
        "another permission": {"permission_type": 0},
        "another pattern": {"pattern_type_filter": 0},
    }
    for label, changes in filters.items():
        wire.answers[f"filter: {label}"] = described_acls(wire, on=label, **changes)
    removed = wire.ask_quietly(
        ApiKey.DELETE_ACLS,
        3,
        filters=[acl_filter(resource_name_filter="orders"), acl_filter(resource_type_filter=_GROUP)],
    )
    wire.answers["removed"] = [
        [int(one.error_code), len(one.matching_acls)] for one in removed.filter_results
    ]
    wire.answers["left"] = settled_acls(wire, 3)
    wire.ask("no host", ApiKey.CREATE_ACLS, 3, creations=[creation(host="")])


STORIES: Final = {"acls": acls_story}
VERSIONS: Final = {"acls-in-every-version": acls_sweep}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = dict.fromkeys((*STORIES, *VERSIONS), _WITH_ACLS)
