"""Responses about users and clients, for mypy alone.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from odradek.wire.protocol.responses import Response


class SaslHandshakeResponse(Response):
    error_code: int
    mechanisms: tuple[str, ...]


class AclDescription(Response):
    principal: str
    host: str
    operation: int
    permission_type: int


class DescribeAclsResource(Response):
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: tuple[AclDescription, ...]


class DescribeAclsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    resources: tuple[DescribeAclsResource, ...]


class AclCreationResult(Response):
    error_code: int
    error_message: str | None


class CreateAclsResponse(Response):
    throttle_time: timedelta | int
    results: tuple[AclCreationResult, ...]


class DeleteAclsMatchingAcl(Response):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class DeleteAclsFilterResult(Response):
    error_code: int
    error_message: str | None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]


class DeleteAclsResponse(Response):
    throttle_time: timedelta | int
    filter_results: tuple[DeleteAclsFilterResult, ...]


class SaslAuthenticateResponse(Response):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: timedelta | int


class CreateDelegationTokenResponse(Response):
    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp: datetime | int | None
    expiry_timestamp: datetime | int | None
    max_timestamp: datetime | int | None
    token_id: str
    hmac: bytes
    throttle_time: timedelta | int


class RenewDelegationTokenResponse(Response):
    error_code: int
    expiry_timestamp: datetime | int | None
    throttle_time: timedelta | int


class ExpireDelegationTokenResponse(Response):
    error_code: int
    expiry_timestamp: datetime | int | None
    throttle_time: timedelta | int


class DescribedDelegationTokenRenewer(Response):
    principal_type: str
    principal_name: str


class DescribedDelegationToken(Response):
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    hmac: bytes
    renewers: tuple[DescribedDelegationTokenRenewer, ...]


class DescribeDelegationTokenResponse(Response):
    error_code: int
    tokens: tuple[DescribedDelegationToken, ...]
    throttle_time: timedelta | int


class EntityData(Response):
    entity_type: str
    entity_name: str | None


class ValueData(Response):
    key: str
    value: float


class EntryData(Response):
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]


class DescribeClientQuotasResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    entries: tuple[EntryData, ...] | None


class AlterClientQuotasEntityData(Response):
    entity_type: str
    entity_name: str | None


class AlterClientQuotasEntryData(Response):
    error_code: int
    error_message: str | None
    entity: tuple[AlterClientQuotasEntityData, ...]


class AlterClientQuotasResponse(Response):
    throttle_time: timedelta | int
    entries: tuple[AlterClientQuotasEntryData, ...]


class CredentialInfo(Response):
    mechanism: int
    iterations: int


class DescribeUserScramCredentialsResult(Response):
    user: str
    error_code: int
    error_message: str | None
    credential_infos: tuple[CredentialInfo, ...]


class DescribeUserScramCredentialsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    results: tuple[DescribeUserScramCredentialsResult, ...]


class AlterUserScramCredentialsResult(Response):
    user: str
    error_code: int
    error_message: str | None


class AlterUserScramCredentialsResponse(Response):
    throttle_time: timedelta | int
    results: tuple[AlterUserScramCredentialsResult, ...]


class GetTelemetrySubscriptionsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    client_instance_id: UUID | None
    subscription_id: int
    accepted_compression_types: tuple[int, ...]
    push_interval: timedelta | int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: tuple[str, ...]


class PushTelemetryResponse(Response):
    throttle_time: timedelta | int
    error_code: int
