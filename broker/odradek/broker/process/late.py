"""The door of this room: coordinators, rights, quotas and the other parts of a broker that a start leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.foundation.doors import open_late

if TYPE_CHECKING:
    from odradek.broker.coordination.internal_topic import ReplicatedTopicLog as ReplicatedTopicLog
    from odradek.broker.coordination.records import kind_of as kind_of
    from odradek.broker.groups.coordinator import GroupCoordinator as GroupCoordinator
    from odradek.broker.groups.share.offsets import ShareOffsets as ShareOffsets
    from odradek.broker.groups.zookeeper_groups import ZookeeperGroups as ZookeeperGroups
    from odradek.broker.process.access_takeover import AccessTakeover as AccessTakeover
    from odradek.broker.process.kraft_metadata import read_kraft_metadata as read_kraft_metadata
    from odradek.broker.process.telemetry import telemetry_parts as telemetry_parts
    from odradek.broker.process.testing_faults import FaultStep as FaultStep
    from odradek.broker.quotas.connection_rates import ConnectionRates as ConnectionRates
    from odradek.broker.quotas.keys import QuotaKey as QuotaKey
    from odradek.broker.quotas.precedence import quota_tables as quota_tables
    from odradek.broker.quotas.precedence import quota_tables_in_turns as quota_tables_in_turns
    from odradek.broker.replication.cleaning_work import InlineWork as InlineWork
    from odradek.broker.replication.cleaning_work import ProcessWork as ProcessWork
    from odradek.broker.replication.end_offsets import EndOffsetClient as EndOffsetClient
    from odradek.broker.replication.transaction_verifier import TransactionVerifier as TransactionVerifier
    from odradek.broker.requests.delegation_tokens import check_requester as check_requester
    from odradek.broker.requests.long_answers import free as free
    from odradek.broker.requests.long_requests import LargeRequest as LargeRequest
    from odradek.broker.requests.rights.rights import Rights as Rights
    from odradek.broker.requests.rights.rules import AnyCheck as AnyCheck
    from odradek.broker.requests.rights.step import AuthorizationStep as AuthorizationStep
    from odradek.broker.requests.rights.table import CHECKS as CHECKS
    from odradek.broker.requests.rights.table import FORWARDING_CHECKS as FORWARDING_CHECKS
    from odradek.broker.requests.settings_trial import needs_trial as needs_trial
    from odradek.broker.requests.settings_trial import try_settings as try_settings
    from odradek.broker.requests.throttling import ClientThrottling as ClientThrottling
    from odradek.broker.requests.tracing.followers import FollowerWaits as FollowerWaits
    from odradek.broker.requests.tracing.step import TracingStep as TracingStep
    from odradek.broker.share_states.client import ShareStateClient as ShareStateClient
    from odradek.broker.share_states.coordinator import ShareCoordinator as ShareCoordinator
    from odradek.broker.shares.dead_letter_topic import DeadLetterTopics as DeadLetterTopics
    from odradek.broker.shares.dead_letter_writer import DeadLetterWriter as DeadLetterWriter
    from odradek.broker.shares.leader import ShareLeader as ShareLeader
    from odradek.broker.telemetry.span_export import OtlpSpans as OtlpSpans
    from odradek.broker.transactions.coordinator import TransactionCoordinator as TransactionCoordinator
    from odradek.broker.transactions.schema import KIND_TRANSACTION as KIND_TRANSACTION
    from odradek.broker.transactions.schema import decode_value as decode_value
    from odradek.metadata.controller.leadership import Leadership as Leadership
    from odradek.metadata.image.authorization import authorizer_of as authorizer_of
    from odradek.security.authorization.acls import AclOperation as AclOperation
    from odradek.security.authorization.acls import AclResourceType as AclResourceType
else:
    __getattr__ = open_late(
        __name__,
        {
            "ReplicatedTopicLog": "odradek.broker.coordination.internal_topic",
            "kind_of": "odradek.broker.coordination.records",
            "GroupCoordinator": "odradek.broker.groups.coordinator",
            "ZookeeperGroups": "odradek.broker.groups.zookeeper_groups",
            "AccessTakeover": "odradek.broker.process.access_takeover",
            "read_kraft_metadata": "odradek.broker.process.kraft_metadata",
            "FaultStep": "odradek.broker.process.testing_faults",
            "telemetry_parts": "odradek.broker.process.telemetry",
            "ConnectionRates": "odradek.broker.quotas.connection_rates",
            "QuotaKey": "odradek.broker.quotas.keys",
            "quota_tables": "odradek.broker.quotas.precedence",
            "quota_tables_in_turns": "odradek.broker.quotas.precedence",
            "InlineWork": "odradek.broker.replication.cleaning_work",
            "ProcessWork": "odradek.broker.replication.cleaning_work",
            "TransactionVerifier": "odradek.broker.replication.transaction_verifier",
            "check_requester": "odradek.broker.requests.delegation_tokens",
            "needs_trial": "odradek.broker.requests.settings_trial",
            "try_settings": "odradek.broker.requests.settings_trial",
            "free": "odradek.broker.requests.long_answers",
            "LargeRequest": "odradek.broker.requests.long_requests",
            "Rights": "odradek.broker.requests.rights.rights",
            "AnyCheck": "odradek.broker.requests.rights.rules",
            "AuthorizationStep": "odradek.broker.requests.rights.step",
            "CHECKS": "odradek.broker.requests.rights.table",
            "FORWARDING_CHECKS": "odradek.broker.requests.rights.table",
            "ClientThrottling": "odradek.broker.requests.throttling",
            "FollowerWaits": "odradek.broker.requests.tracing.followers",
            "TracingStep": "odradek.broker.requests.tracing.step",
            "OtlpSpans": "odradek.broker.telemetry.span_export",
            "ShareOffsets": "odradek.broker.groups.share.offsets",
            "EndOffsetClient": "odradek.broker.replication.end_offsets",
            "ShareStateClient": "odradek.broker.share_states.client",
            "ShareCoordinator": "odradek.broker.share_states.coordinator",
            "DeadLetterTopics": "odradek.broker.shares.dead_letter_topic",
            "DeadLetterWriter": "odradek.broker.shares.dead_letter_writer",
            "ShareLeader": "odradek.broker.shares.leader",
            "TransactionCoordinator": "odradek.broker.transactions.coordinator",
            "KIND_TRANSACTION": "odradek.broker.transactions.schema",
            "decode_value": "odradek.broker.transactions.schema",
            "Leadership": "odradek.metadata.controller.leadership",
            "authorizer_of": "odradek.metadata.image.authorization",
            "AclOperation": "odradek.security.authorization.acls",
            "AclResourceType": "odradek.security.authorization.acls",
        },
    )
