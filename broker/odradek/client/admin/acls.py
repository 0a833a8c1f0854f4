"""Access control lists: list those that match, add, remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.errors import error_for, raise_for
from odradek.foundation.errors import OdradekError
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.security.authorization.filters import AclFilter
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.clients import (
        AclDescription,
        CreateAclsResponse,
        DeleteAclsMatchingAcl,
        DeleteAclsResponse,
        DescribeAclsResource,
        DescribeAclsResponse,
    )

VERSIONS = (1, 3)

# `list` is a method here.
Bindings = list[AclBinding]
RemovedAcls = list[Bindings | OdradekError]
Failures = list[OdradekError | None]


@checking_arguments()
class AclAdmin:
    """The admin calls for ACLs. All raise SecurityDisabled where there is no authorizer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, wanted: AclFilter | None = None) -> Bindings:
        """The ACLs that match, by resource. Raises ClusterAuthorizationFailed."""
        answer: DescribeAclsResponse = await self._client.ask(
            ApiKey.DESCRIBE_ACLS, VERSIONS, **_fields(wanted or AclFilter())
        )
        raise_for(answer.error_code, answer.error_message, about="the ACLs")
        return sorted(
            _binding(one, one.pattern_type, entry) for one in answer.resources for entry in one.acls
        )

    async def create(self, acls: Sequence[AclBinding]) -> Failures:
        """Add ACLs; None or an error for each, in order. One that is there already is no error."""
        answer: CreateAclsResponse = await self._client.ask_controller(
            ApiKey.CREATE_ACLS,
            VERSIONS,
            answers="results",
            creations=[
                {
                    "resource_type": pattern.type,
                    "resource_name": pattern.name,
                    "resource_pattern_type": pattern.pattern_type,
                    "principal": entry.principal,
                    "host": entry.host,
                    "operation": entry.operation,
                    "permission_type": entry.permission,
                }
                for pattern, entry in acls
            ],
        )
        return [error_for(one.error_code, one.error_message, about="the ACL") for one in answer.results]

    async def delete(self, filters: Sequence[AclFilter]) -> RemovedAcls:
        """Remove the ACLs that match; for each filter those that it removed, or its error."""
        answer: DeleteAclsResponse = await self._client.ask_controller(
            ApiKey.DELETE_ACLS, VERSIONS, answers="filter_results", filters=[_fields(one) for one in filters]
        )
        removed: RemovedAcls = []
        for result in answer.filter_results:
            failure = error_for(result.error_code, result.error_message, about="the filter")
            removed.append(failure or [_binding(one, one.pattern_type, one) for one in result.matching_acls])
        return removed


def _fields(wanted: AclFilter) -> dict[str, object]:
    return {
        "resource_type_filter": wanted.type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _binding(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl,
    pattern_type: int,
    entry: AclDescription | DeleteAclsMatchingAcl,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            AclResourceType(resource.resource_type), resource.resource_name, PatternType(pattern_type)
        ),
        AccessControlEntry(
            entry.principal, entry.host, AclOperation(entry.operation), PermissionType(entry.permission_type)
        ),
    )
