"""Requests of users and clients, as handlers read them.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final
from uuid import UUID

from odradek.wire.protocol.api import ApiKey


class SaslHandshakeRequest:
    __slots__ = ()
    mechanism: str


class DescribeAclsRequest:
    __slots__ = ()
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class AclCreation:
    __slots__ = ()
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class CreateAclsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"creations": AclCreation}
    creations: tuple[AclCreation, ...]


class DeleteAclsFilter:
    __slots__ = ()
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class DeleteAclsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"filters": DeleteAclsFilter}
    filters: tuple[DeleteAclsFilter, ...]


class SaslAuthenticateRequest:
    __slots__ = ()
    auth_bytes: bytes


class CreatableRenewers:
    __slots__ = ()
    principal_type: str
    principal_name: str


class CreateDelegationTokenRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"renewers": CreatableRenewers}
    owner_principal_type: str | None = ""
    owner_principal_name: str | None = ""
    renewers: tuple[CreatableRenewers, ...]
    max_lifetime: timedelta | int


class RenewDelegationTokenRequest:
    __slots__ = ()
    hmac: bytes
    renew_period: timedelta | int


class ExpireDelegationTokenRequest:
    __slots__ = ()
    hmac: bytes
    expiry_time_period: timedelta | int


class DescribeDelegationTokenOwner:
    __slots__ = ()
    principal_type: str
    principal_name: str


class DescribeDelegationTokenRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"owners": DescribeDelegationTokenOwner}
    owners: tuple[DescribeDelegationTokenOwner, ...] | None


class ComponentData:
    __slots__ = ()
    entity_type: str
    match_type: int
    match: str | None


class DescribeClientQuotasRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"components": ComponentData}
    components: tuple[ComponentData, ...]
    strict: bool


class EntityData:
    __slots__ = ()
    entity_type: str
    entity_name: str | None


class OpData:
    __slots__ = ()
    key: str
    value: float
    remove: bool


class EntryData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"entity": EntityData, "ops": OpData}
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


class AlterClientQuotasRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"entries": EntryData}
    entries: tuple[EntryData, ...]
    validate_only: bool


class UserName:
    __slots__ = ()
    name: str


class DescribeUserScramCredentialsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"users": UserName}
    users: tuple[UserName, ...] | None


class ScramCredentialDeletion:
    __slots__ = ()
    name: str
    mechanism: int


class ScramCredentialUpsertion:
    __slots__ = ()
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class AlterUserScramCredentialsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {
        "deletions": ScramCredentialDeletion,
        "upsertions": ScramCredentialUpsertion,
    }
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


class GetTelemetrySubscriptionsRequest:
    __slots__ = ()
    client_instance_id: UUID | None


class PushTelemetryRequest:
    __slots__ = ()
    client_instance_id: UUID | None
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes


TYPES: Final[dict[int, type]] = {
    ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest,
    ApiKey.DESCRIBE_ACLS: DescribeAclsRequest,
    ApiKey.CREATE_ACLS: CreateAclsRequest,
    ApiKey.DELETE_ACLS: DeleteAclsRequest,
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest,
    ApiKey.CREATE_DELEGATION_TOKEN: CreateDelegationTokenRequest,
    ApiKey.RENEW_DELEGATION_TOKEN: RenewDelegationTokenRequest,
    ApiKey.EXPIRE_DELEGATION_TOKEN: ExpireDelegationTokenRequest,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: DescribeDelegationTokenRequest,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotasRequest,
    ApiKey.ALTER_CLIENT_QUOTAS: AlterClientQuotasRequest,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentialsRequest,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AlterUserScramCredentialsRequest,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: GetTelemetrySubscriptionsRequest,
    ApiKey.PUSH_TELEMETRY: PushTelemetryRequest,
}
