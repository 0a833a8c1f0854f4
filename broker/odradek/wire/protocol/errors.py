"""The errors of Kafka's protocol: one table of their numbers for brokers, controllers, followers and clients.

A row has Kafka's number and name, the exception of the domain that represents it, and what a client does upon it. No
other module writes a number: it names the exception (`code_of`). A number without an exception is one that no part of
Odradek raises. Source: Apache Kafka 4.4, `org.apache.kafka.common.protocol.Errors`.

An exception without a row answers as its nearest ancestor that has one, and any other exception as
UNKNOWN_SERVER_ERROR. The text that a client sees comes from the exception. Unexpected exceptions are left out of that:
their text may say more than a client should read.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from odradek.foundation import errors, security_errors, transaction_errors
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.words import nearest_name

NONE: Final = 0


class Retry(Enum):
    """The way in which a client treats a request that met the error."""

    NEVER = "the same request fails again"
    AGAIN = "another try may succeed"
    REFRESH = "another try may succeed once the metadata is read again"


AGAIN: Final = Retry.AGAIN
REFRESH: Final = Retry.REFRESH


class ErrorRow(NamedTuple):
    """One error: its number and name in Kafka, our exception for it or None, and whether clients try again."""

    code: int
    name: str
    kind: type[errors.OdradekError] | None = None
    retry: Retry = Retry.NEVER

    @property
    def text(self) -> str:
        """The meaning of the error, for an answer that has no message of its own."""
        kind = self.kind
        return self.name if kind is None else (kind.__doc__ or kind.__name__).strip()


ROWS: Final = (
    ErrorRow(-1, "UNKNOWN_SERVER_ERROR", errors.UnknownServerError),
    ErrorRow(1, "OFFSET_OUT_OF_RANGE", errors.OffsetOutOfRange),
    ErrorRow(2, "CORRUPT_MESSAGE", errors.CorruptRecord, AGAIN),
    ErrorRow(3, "UNKNOWN_TOPIC_OR_PARTITION", errors.UnknownTopicOrPartition, REFRESH),
    ErrorRow(4, "INVALID_FETCH_SIZE"),
    ErrorRow(5, "LEADER_NOT_AVAILABLE", errors.LeaderNotAvailable, REFRESH),
    ErrorRow(6, "NOT_LEADER_OR_FOLLOWER", errors.NotLeaderOrFollower, REFRESH),
    ErrorRow(7, "REQUEST_TIMED_OUT", errors.RequestTimedOut, AGAIN),
    ErrorRow(8, "BROKER_NOT_AVAILABLE", errors.BrokerNotAvailable),
    ErrorRow(9, "REPLICA_NOT_AVAILABLE", errors.ReplicaNotAvailable),
    ErrorRow(10, "MESSAGE_TOO_LARGE", errors.RecordTooLarge),
    ErrorRow(11, "STALE_CONTROLLER_EPOCH"),
    ErrorRow(12, "OFFSET_METADATA_TOO_LARGE", errors.InvalidCommitOffsetSize),
    ErrorRow(13, "NETWORK_EXCEPTION"),
    ErrorRow(14, "COORDINATOR_LOAD_IN_PROGRESS", errors.CoordinatorLoadInProgress, AGAIN),
    ErrorRow(15, "COORDINATOR_NOT_AVAILABLE", errors.CoordinatorNotAvailable, AGAIN),
    ErrorRow(16, "NOT_COORDINATOR", errors.NotCoordinator, AGAIN),
    ErrorRow(17, "INVALID_TOPIC_EXCEPTION", errors.InvalidTopic),
    ErrorRow(18, "RECORD_LIST_TOO_LARGE", errors.RecordListTooLarge),
    ErrorRow(19, "NOT_ENOUGH_REPLICAS", errors.NotEnoughReplicas, AGAIN),
    ErrorRow(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", errors.NotEnoughReplicasAfterAppend, AGAIN),
    ErrorRow(21, "INVALID_REQUIRED_ACKS", errors.InvalidRequiredAcks),
    ErrorRow(22, "ILLEGAL_GENERATION", errors.IllegalGeneration),
    ErrorRow(23, "INCONSISTENT_GROUP_PROTOCOL", errors.InconsistentGroupProtocol),
    ErrorRow(24, "INVALID_GROUP_ID", errors.InvalidGroupId),
    ErrorRow(25, "UNKNOWN_MEMBER_ID", errors.UnknownMemberId),
    ErrorRow(26, "INVALID_SESSION_TIMEOUT", errors.InvalidSessionTimeout),
    ErrorRow(27, "REBALANCE_IN_PROGRESS", errors.RebalanceInProgress),
    ErrorRow(28, "INVALID_COMMIT_OFFSET_SIZE"),
    ErrorRow(29, "TOPIC_AUTHORIZATION_FAILED", security_errors.TopicAuthorizationFailed),
    ErrorRow(30, "GROUP_AUTHORIZATION_FAILED", security_errors.GroupAuthorizationFailed),
    ErrorRow(31, "CLUSTER_AUTHORIZATION_FAILED", security_errors.ClusterAuthorizationFailed),
    ErrorRow(32, "INVALID_TIMESTAMP", errors.InvalidTimestamp),
    ErrorRow(33, "UNSUPPORTED_SASL_MECHANISM", security_errors.UnsupportedSaslMechanism),
    ErrorRow(34, "ILLEGAL_SASL_STATE", security_errors.IllegalSaslState),
    ErrorRow(35, "UNSUPPORTED_VERSION", errors.UnsupportedVersion),
    ErrorRow(36, "TOPIC_ALREADY_EXISTS", errors.TopicAlreadyExists),
    ErrorRow(37, "INVALID_PARTITIONS", errors.InvalidPartitions),
    ErrorRow(38, "INVALID_REPLICATION_FACTOR", errors.InvalidReplicationFactor),
    ErrorRow(39, "INVALID_REPLICA_ASSIGNMENT", errors.InvalidReplicaAssignment),
    ErrorRow(40, "INVALID_CONFIG", errors.InvalidConfig),
    ErrorRow(41, "NOT_CONTROLLER", errors.NotController, REFRESH),
    ErrorRow(42, "INVALID_REQUEST", errors.InvalidRequest),
    ErrorRow(43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", errors.UnsupportedForMessageFormat),
    ErrorRow(44, "POLICY_VIOLATION", errors.PolicyViolation),
    ErrorRow(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", transaction_errors.OutOfOrderSequence),
    ErrorRow(46, "DUPLICATE_SEQUENCE_NUMBER", transaction_errors.DuplicateSequence),
    ErrorRow(47, "INVALID_PRODUCER_EPOCH", transaction_errors.InvalidProducerEpoch),
    ErrorRow(48, "INVALID_TXN_STATE", transaction_errors.InvalidTxnState),
    ErrorRow(49, "INVALID_PRODUCER_ID_MAPPING", transaction_errors.InvalidProducerIdMapping),
    ErrorRow(50, "INVALID_TRANSACTION_TIMEOUT", transaction_errors.InvalidTransactionTimeout),
    ErrorRow(51, "CONCURRENT_TRANSACTIONS", transaction_errors.ConcurrentTransactions, AGAIN),
    ErrorRow(52, "TRANSACTION_COORDINATOR_FENCED", transaction_errors.TransactionCoordinatorFenced),
    ErrorRow(
        53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", transaction_errors.TransactionalIdAuthorizationFailed
    ),
    ErrorRow(54, "SECURITY_DISABLED", security_errors.SecurityDisabled),
    ErrorRow(55, "OPERATION_NOT_ATTEMPTED", transaction_errors.OperationNotAttempted),
    ErrorRow(56, "KAFKA_STORAGE_ERROR", errors.KafkaStorageError, REFRESH),
    ErrorRow(57, "LOG_DIR_NOT_FOUND", errors.LogDirNotFound),
    ErrorRow(58, "SASL_AUTHENTICATION_FAILED", security_errors.SaslAuthenticationFailed),
    ErrorRow(59, "UNKNOWN_PRODUCER_ID", transaction_errors.UnknownProducerId),
    ErrorRow(60, "REASSIGNMENT_IN_PROGRESS"),
    ErrorRow(61, "DELEGATION_TOKEN_AUTH_DISABLED", security_errors.DelegationTokenAuthDisabled),
    ErrorRow(62, "DELEGATION_TOKEN_NOT_FOUND", security_errors.DelegationTokenNotFound),
    ErrorRow(63, "DELEGATION_TOKEN_OWNER_MISMATCH", security_errors.DelegationTokenOwnerMismatch),
    ErrorRow(64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", security_errors.DelegationTokenRequestNotAllowed),
    ErrorRow(65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", security_errors.DelegationTokenAuthorizationFailed),
    ErrorRow(66, "DELEGATION_TOKEN_EXPIRED", security_errors.DelegationTokenExpired),
    ErrorRow(67, "INVALID_PRINCIPAL_TYPE", security_errors.InvalidPrincipalType),
    ErrorRow(68, "NON_EMPTY_GROUP", errors.NonEmptyGroup),
    ErrorRow(69, "GROUP_ID_NOT_FOUND", errors.GroupIdNotFound),
    ErrorRow(70, "FETCH_SESSION_ID_NOT_FOUND", errors.FetchSessionIdNotFound),
    ErrorRow(71, "INVALID_FETCH_SESSION_EPOCH", errors.InvalidFetchSessionEpoch),
    ErrorRow(72, "LISTENER_NOT_FOUND", errors.ListenerNotFound),
    ErrorRow(73, "TOPIC_DELETION_DISABLED", errors.TopicDeletionDisabled),
    ErrorRow(74, "FENCED_LEADER_EPOCH", errors.FencedLeaderEpoch, REFRESH),
    ErrorRow(75, "UNKNOWN_LEADER_EPOCH", errors.UnknownLeaderEpoch, REFRESH),
    ErrorRow(76, "UNSUPPORTED_COMPRESSION_TYPE", errors.UnsupportedCompressionType),
    ErrorRow(77, "STALE_BROKER_EPOCH", errors.StaleBrokerEpoch),
    ErrorRow(78, "OFFSET_NOT_AVAILABLE", errors.OffsetNotAvailable, AGAIN),
    ErrorRow(79, "MEMBER_ID_REQUIRED", errors.MemberIdRequired),
    ErrorRow(80, "PREFERRED_LEADER_NOT_AVAILABLE", errors.PreferredLeaderNotAvailable),
    ErrorRow(81, "GROUP_MAX_SIZE_REACHED", errors.GroupMaxSizeReached),
    ErrorRow(82, "FENCED_INSTANCE_ID", errors.FencedInstanceId),
    ErrorRow(83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", errors.EligibleLeadersNotAvailable),
    ErrorRow(84, "ELECTION_NOT_NEEDED", errors.ElectionNotNeeded),
    ErrorRow(85, "NO_REASSIGNMENT_IN_PROGRESS", errors.NoReassignmentInProgress),
    ErrorRow(86, "GROUP_SUBSCRIBED_TO_TOPIC", errors.GroupSubscribedToTopic),
    ErrorRow(87, "INVALID_RECORD", errors.InvalidRecord),
    ErrorRow(88, "UNSTABLE_OFFSET_COMMIT", transaction_errors.UnstableOffsetCommit, AGAIN),
    ErrorRow(89, "THROTTLING_QUOTA_EXCEEDED", errors.ThrottlingQuotaExceeded, AGAIN),
    ErrorRow(90, "PRODUCER_FENCED", transaction_errors.ProducerFenced),
    ErrorRow(91, "RESOURCE_NOT_FOUND", errors.ResourceNotFound),
    ErrorRow(92, "DUPLICATE_RESOURCE", security_errors.DuplicateResource),
    ErrorRow(93, "UNACCEPTABLE_CREDENTIAL", security_errors.UnacceptableCredential),
    ErrorRow(94, "INCONSISTENT_VOTER_SET"),
    ErrorRow(95, "INVALID_UPDATE_VERSION", errors.InvalidUpdateVersion),
    ErrorRow(96, "FEATURE_UPDATE_FAILED"),
    ErrorRow(97, "PRINCIPAL_DESERIALIZATION_FAILURE"),
    ErrorRow(98, "SNAPSHOT_NOT_FOUND"),
    ErrorRow(99, "POSITION_OUT_OF_RANGE"),
    ErrorRow(100, "UNKNOWN_TOPIC_ID", errors.UnknownTopicId, REFRESH),
    ErrorRow(101, "DUPLICATE_BROKER_REGISTRATION", errors.DuplicateBrokerRegistration),
    ErrorRow(102, "BROKER_ID_NOT_REGISTERED", errors.BrokerIdNotRegistered),
    ErrorRow(103, "INCONSISTENT_TOPIC_ID", errors.InconsistentTopicId, REFRESH),
    ErrorRow(104, "INCONSISTENT_CLUSTER_ID"),
    ErrorRow(105, "TRANSACTIONAL_ID_NOT_FOUND", transaction_errors.TransactionalIdNotFound),
    ErrorRow(106, "FETCH_SESSION_TOPIC_ID_ERROR", errors.FetchSessionTopicIdError),
    ErrorRow(107, "INELIGIBLE_REPLICA", errors.IneligibleReplica),
    ErrorRow(108, "NEW_LEADER_ELECTED"),
    ErrorRow(109, "OFFSET_MOVED_TO_TIERED_STORAGE"),
    ErrorRow(110, "FENCED_MEMBER_EPOCH", errors.FencedMemberEpoch),
    ErrorRow(111, "UNRELEASED_INSTANCE_ID", errors.UnreleasedInstanceId),
    ErrorRow(112, "UNSUPPORTED_ASSIGNOR", errors.UnsupportedAssignor),
    ErrorRow(113, "STALE_MEMBER_EPOCH", errors.StaleMemberEpoch),
    ErrorRow(114, "MISMATCHED_ENDPOINT_TYPE", errors.MismatchedEndpointType),
    ErrorRow(115, "UNSUPPORTED_ENDPOINT_TYPE", errors.UnsupportedEndpointType),
    ErrorRow(116, "UNKNOWN_CONTROLLER_ID"),
    ErrorRow(117, "UNKNOWN_SUBSCRIPTION_ID", errors.UnknownSubscriptionId),
    ErrorRow(118, "TELEMETRY_TOO_LARGE", errors.TelemetryTooLarge),
    ErrorRow(119, "INVALID_REGISTRATION"),
    ErrorRow(120, "TRANSACTION_ABORTABLE", transaction_errors.TransactionAbortable),
    ErrorRow(121, "INVALID_RECORD_STATE", errors.InvalidRecordState),
    ErrorRow(122, "SHARE_SESSION_NOT_FOUND", errors.ShareSessionNotFound, AGAIN),
    ErrorRow(123, "INVALID_SHARE_SESSION_EPOCH", errors.InvalidShareSessionEpoch, AGAIN),
    ErrorRow(124, "FENCED_STATE_EPOCH", errors.FencedStateEpoch),
    ErrorRow(125, "INVALID_VOTER_KEY"),
    ErrorRow(126, "DUPLICATE_VOTER"),
    ErrorRow(127, "VOTER_NOT_FOUND"),
    ErrorRow(128, "INVALID_REGULAR_EXPRESSION", errors.InvalidRegularExpression),
    ErrorRow(129, "REBOOTSTRAP_REQUIRED", errors.RebootstrapRequired),
    ErrorRow(130, "STREAMS_INVALID_TOPOLOGY", errors.StreamsInvalidTopology),
    ErrorRow(131, "STREAMS_INVALID_TOPOLOGY_EPOCH"),
    ErrorRow(132, "STREAMS_TOPOLOGY_FENCED"),
    ErrorRow(133, "SHARE_SESSION_LIMIT_REACHED", errors.ShareSessionLimitReached, AGAIN),
    ErrorRow(134, "GROUP_DELETION_FAILED"),
    ErrorRow(135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"),
    ErrorRow(136, "CONTROLLER_ID_NOT_REGISTERED"),
)

BY_CODE: Final[dict[int, ErrorRow]] = {row.code: row for row in ROWS}
_CODES: Final[dict[type[BaseException], int]] = {row.kind: row.code for row in ROWS if row.kind is not None}
UNKNOWN_SERVER_ERROR: Final = _CODES[errors.UnknownServerError]


def code_of(kind: type[errors.OdradekError]) -> int:
    """The number of an exception that has a row. Raises KeyError for another."""
    return _CODES[kind]


def codes_of(*kinds: type[errors.OdradekError]) -> frozenset[int]:
    """The numbers of exceptions that have rows. Raises KeyError for another."""
    return frozenset(_CODES[kind] for kind in kinds)


def kinds_to_retry(*retries: Retry) -> tuple[type[errors.OdradekError], ...]:
    """The exceptions upon which clients do one of `retries`."""
    return tuple(row.kind for row in ROWS if row.kind is not None and row.retry in retries)


def error_code(error: BaseException | None) -> int:
    """The number on the wire for `error`; 0 for None."""
    if error is None:
        return NONE
    code = _CODES.get(type(error))
    if code is not None:
        return code
    for ancestor in type(error).__mro__:
        if ancestor in _CODES:
            return _CODES[ancestor]
    return UNKNOWN_SERVER_ERROR


def error_message(error: BaseException | None) -> str | None:
    """The text that the client may read: that of the domain's exception, a general line for another."""
    if error is None:
        return None
    if isinstance(error, errors.RequestError):
        return str(error) or None
    return "The broker failed unexpectedly on this request; its log says why."


def error_of(code: int, message: str | None) -> errors.RequestError | None:
    """The error that the controller answered with; None for success."""
    if code == NONE:
        return None
    row = BY_CODE.get(code)
    if row is not None and row.kind is not None and issubclass(row.kind, errors.RequestError):
        return row.kind(message or row.kind.__name__)
    return errors.BrokerNotAvailable(message or f"the controller answered with the error {code}")


def error_name(code: int) -> str:
    """Kafka's name of an error for log lines, such as NOT_LEADER_OR_FOLLOWER; a newer peer may have unknown ones."""
    row = BY_CODE.get(code)
    return f"the unknown error {code}" if row is None else row.name


def error_number(name: str | int) -> int:
    """The number of the error with Kafka's `name` in any case; a number stays one. Raises ValueError."""
    if isinstance(name, int):
        if name not in BY_CODE:
            raise ValueError(
                f"there is no error with the number {name}; Kafka's are from -1 to {max(BY_CODE)}, 0 is none"
            )
        return name
    numbers = {row.name.lower(): row.code for row in ROWS}
    number = numbers.get(name.lower())
    if number is None:
        nearest = nearest_name(name.lower(), [*numbers, "none"])
        hint = "names are Kafka's, such as NOT_LEADER_OR_FOLLOWER"
        raise ValueError(
            f"there is no error {name!r}; {hint if nearest in (None, 'none') else f'did you mean {nearest.upper()!r}?'}"
        )
    return number
