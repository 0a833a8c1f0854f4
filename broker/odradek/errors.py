"""The errors that the Python client raises, to be caught by name: `from odradek.errors import ClientTimeout`.

OdradekError is the root. RequestError and its kinds are answers of a broker, named as Apache Kafka names them.
ClientError and its kinds happen on this side of the connection. Wrong types of arguments are Python's TypeError.
A name that is imported as itself is one that this module exports (PEP 484).
"""

# A sorter of imports would write a statement for each name.
# isort: skip_file
from __future__ import annotations

from odradek.client.errors import (
    RETRIABLE_OR_LATE,
    BufferFull as BufferFull,
    ClientClosed as ClientClosed,
    ClientError as ClientError,
    ClientTimeout as ClientTimeout,
    ConnectionFailed as ConnectionFailed,
    LogTruncated as LogTruncated,
    NoSuchBroker as NoSuchBroker,
    NoTransaction as NoTransaction,
    SchemaRegistryUnavailable as SchemaRegistryUnavailable,
    SchemaUnavailable as SchemaUnavailable,
    TransactionAborted as TransactionAborted,
    UndecodableRecord as UndecodableRecord,
    UnexpectedErrorCode as UnexpectedErrorCode,
    UnsupportedByBroker as UnsupportedByBroker,
)
from odradek.foundation.errors import (
    BrokerIdNotRegistered as BrokerIdNotRegistered,
    BrokerNotAvailable as BrokerNotAvailable,
    CoordinatorLoadInProgress as CoordinatorLoadInProgress,
    CoordinatorNotAvailable as CoordinatorNotAvailable,
    CorruptRecord as CorruptRecord,
    DependencyError as DependencyError,
    DuplicateBrokerRegistration as DuplicateBrokerRegistration,
    ElectionNotNeeded as ElectionNotNeeded,
    EligibleLeadersNotAvailable as EligibleLeadersNotAvailable,
    FencedInstanceId as FencedInstanceId,
    FencedLeaderEpoch as FencedLeaderEpoch,
    FencedMemberEpoch as FencedMemberEpoch,
    FetchSessionIdNotFound as FetchSessionIdNotFound,
    FetchSessionTopicIdError as FetchSessionTopicIdError,
    GroupIdNotFound as GroupIdNotFound,
    GroupMaxSizeReached as GroupMaxSizeReached,
    GroupSubscribedToTopic as GroupSubscribedToTopic,
    IllegalGeneration as IllegalGeneration,
    InconsistentGroupProtocol as InconsistentGroupProtocol,
    InconsistentTopicId as InconsistentTopicId,
    IneligibleReplica as IneligibleReplica,
    InvalidCommitOffsetSize as InvalidCommitOffsetSize,
    InvalidConfig as InvalidConfig,
    InvalidFetchSessionEpoch as InvalidFetchSessionEpoch,
    InvalidGroupId as InvalidGroupId,
    InvalidPartitions as InvalidPartitions,
    InvalidRecord as InvalidRecord,
    InvalidRegularExpression as InvalidRegularExpression,
    InvalidReplicaAssignment as InvalidReplicaAssignment,
    InvalidReplicationFactor as InvalidReplicationFactor,
    InvalidRequest as InvalidRequest,
    InvalidRequiredAcks as InvalidRequiredAcks,
    InvalidSessionTimeout as InvalidSessionTimeout,
    InvalidTimestamp as InvalidTimestamp,
    InvalidTopic as InvalidTopic,
    InvalidUpdateVersion as InvalidUpdateVersion,
    KafkaStorageError as KafkaStorageError,
    LeaderNotAvailable as LeaderNotAvailable,
    ListenerNotFound as ListenerNotFound,
    LogDirNotFound as LogDirNotFound,
    ReplicaNotAvailable as ReplicaNotAvailable,
    MemberIdRequired as MemberIdRequired,
    MismatchedEndpointType as MismatchedEndpointType,
    NonEmptyGroup as NonEmptyGroup,
    NoReassignmentInProgress as NoReassignmentInProgress,
    NotController as NotController,
    NotCoordinator as NotCoordinator,
    NotEnoughReplicas as NotEnoughReplicas,
    NotEnoughReplicasAfterAppend as NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower as NotLeaderOrFollower,
    OdradekError as OdradekError,
    OffsetNotAvailable as OffsetNotAvailable,
    OffsetOutOfRange as OffsetOutOfRange,
    PolicyViolation as PolicyViolation,
    PreferredLeaderNotAvailable as PreferredLeaderNotAvailable,
    RebalanceInProgress as RebalanceInProgress,
    RebootstrapRequired as RebootstrapRequired,
    RecordListTooLarge as RecordListTooLarge,
    RecordTooLarge as RecordTooLarge,
    RequestError as RequestError,
    RequestTimedOut as RequestTimedOut,
    ResourceNotFound as ResourceNotFound,
    SettingError as SettingError,
    StaleBrokerEpoch as StaleBrokerEpoch,
    StaleMemberEpoch as StaleMemberEpoch,
    StreamsInvalidTopology as StreamsInvalidTopology,
    ThrottlingQuotaExceeded as ThrottlingQuotaExceeded,
    TopicAlreadyExists as TopicAlreadyExists,
    TopicDeletionDisabled as TopicDeletionDisabled,
    UnknownLeaderEpoch as UnknownLeaderEpoch,
    UnknownMemberId as UnknownMemberId,
    UnknownServerError as UnknownServerError,
    UnknownTopicId as UnknownTopicId,
    UnknownTopicOrPartition as UnknownTopicOrPartition,
    UnreleasedInstanceId as UnreleasedInstanceId,
    UnsupportedAssignor as UnsupportedAssignor,
    UnsupportedCompressionType as UnsupportedCompressionType,
    UnsupportedEndpointType as UnsupportedEndpointType,
    UnsupportedForMessageFormat as UnsupportedForMessageFormat,
    UnsupportedVersion as UnsupportedVersion,
)
from odradek.foundation.security_errors import (
    ClusterAuthorizationFailed as ClusterAuthorizationFailed,
    GroupAuthorizationFailed as GroupAuthorizationFailed,
    SecurityDisabled as SecurityDisabled,
    TopicAuthorizationFailed as TopicAuthorizationFailed,
)
from odradek.foundation.transaction_errors import (
    DuplicateSequence as DuplicateSequence,
    InvalidProducerEpoch as InvalidProducerEpoch,
    InvalidProducerIdMapping as InvalidProducerIdMapping,
    InvalidTxnState as InvalidTxnState,
    OutOfOrderSequence as OutOfOrderSequence,
    ProducerFenced as ProducerFenced,
    TransactionalIdAuthorizationFailed as TransactionalIdAuthorizationFailed,
    TransactionCoordinatorFenced as TransactionCoordinatorFenced,
    UnknownProducerId as UnknownProducerId,
)
from odradek.foundation.security_errors import (
    DelegationTokenAuthDisabled as DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed as DelegationTokenAuthorizationFailed,
    DelegationTokenExpired as DelegationTokenExpired,
    DelegationTokenNotFound as DelegationTokenNotFound,
    DelegationTokenOwnerMismatch as DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed as DelegationTokenRequestNotAllowed,
    DuplicateResource as DuplicateResource,
    IllegalSaslState as IllegalSaslState,
    InvalidPrincipalType as InvalidPrincipalType,
    SaslAuthenticationFailed as SaslAuthenticationFailed,
    UnacceptableCredential as UnacceptableCredential,
    UnsupportedSaslMechanism as UnsupportedSaslMechanism,
)
from odradek.foundation.transaction_errors import (
    ConcurrentTransactions as ConcurrentTransactions,
    InvalidTransactionTimeout as InvalidTransactionTimeout,
    OperationNotAttempted as OperationNotAttempted,
    TransactionAbortable as TransactionAbortable,
    TransactionalIdNotFound as TransactionalIdNotFound,
    UnstableOffsetCommit as UnstableOffsetCommit,
)


def is_retriable(error: BaseException) -> bool:
    """Whether another try may succeed without any change, as with a leader that just moved.

    The client has tried for as long as it may by then; a program that has more time may continue.
    """
    return isinstance(error, RETRIABLE_OR_LATE)
