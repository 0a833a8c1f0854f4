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
    TransactionAborted as TransactionAborted,
    UnexpectedErrorCode as UnexpectedErrorCode,
    UnsupportedByBroker as UnsupportedByBroker,
)
from odradek.foundation.errors import (
    BrokerNotAvailable as BrokerNotAvailable,
    ClusterAuthorizationFailed as ClusterAuthorizationFailed,
    CoordinatorLoadInProgress as CoordinatorLoadInProgress,
    CoordinatorNotAvailable as CoordinatorNotAvailable,
    CorruptRecord as CorruptRecord,
    DuplicateBrokerRegistration as DuplicateBrokerRegistration,
    DuplicateSequence as DuplicateSequence,
    ElectionNotNeeded as ElectionNotNeeded,
    EligibleLeadersNotAvailable as EligibleLeadersNotAvailable,
    FencedInstanceId as FencedInstanceId,
    FencedLeaderEpoch as FencedLeaderEpoch,
    FencedMemberEpoch as FencedMemberEpoch,
    FetchSessionIdNotFound as FetchSessionIdNotFound,
    FetchSessionTopicIdError as FetchSessionTopicIdError,
    GroupAuthorizationFailed as GroupAuthorizationFailed,
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
    InvalidProducerEpoch as InvalidProducerEpoch,
    InvalidProducerIdMapping as InvalidProducerIdMapping,
    InvalidRecord as InvalidRecord,
    InvalidRegularExpression as InvalidRegularExpression,
    InvalidReplicaAssignment as InvalidReplicaAssignment,
    InvalidReplicationFactor as InvalidReplicationFactor,
    InvalidRequest as InvalidRequest,
    InvalidRequiredAcks as InvalidRequiredAcks,
    InvalidSessionTimeout as InvalidSessionTimeout,
    InvalidTimestamp as InvalidTimestamp,
    InvalidTopic as InvalidTopic,
    InvalidTxnState as InvalidTxnState,
    InvalidUpdateVersion as InvalidUpdateVersion,
    KafkaStorageError as KafkaStorageError,
    LeaderNotAvailable as LeaderNotAvailable,
    ListenerNotFound as ListenerNotFound,
    LogDirNotFound as LogDirNotFound,
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
    OutOfOrderSequence as OutOfOrderSequence,
    PolicyViolation as PolicyViolation,
    PreferredLeaderNotAvailable as PreferredLeaderNotAvailable,
    ProducerFenced as ProducerFenced,
    RebalanceInProgress as RebalanceInProgress,
    RecordListTooLarge as RecordListTooLarge,
    RecordTooLarge as RecordTooLarge,
    RequestError as RequestError,
    RequestTimedOut as RequestTimedOut,
    ResourceNotFound as ResourceNotFound,
    SecurityDisabled as SecurityDisabled,
    StaleBrokerEpoch as StaleBrokerEpoch,
    StaleMemberEpoch as StaleMemberEpoch,
    ThrottlingQuotaExceeded as ThrottlingQuotaExceeded,
    TopicAlreadyExists as TopicAlreadyExists,
    TopicAuthorizationFailed as TopicAuthorizationFailed,
    TopicDeletionDisabled as TopicDeletionDisabled,
    TransactionalIdAuthorizationFailed as TransactionalIdAuthorizationFailed,
    TransactionCoordinatorFenced as TransactionCoordinatorFenced,
    UnknownLeaderEpoch as UnknownLeaderEpoch,
    UnknownMemberId as UnknownMemberId,
    UnknownProducerId as UnknownProducerId,
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
from odradek.foundation.login_errors import (
    DuplicateResource as DuplicateResource,
    IllegalSaslState as IllegalSaslState,
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

    The client has tried for as long as it may by then; a program that has more time may go on.
    """
    return isinstance(error, RETRIABLE_OR_LATE)
