"""The errors of Kafka's protocol: one table of their numbers for brokers, controllers, followers and clients.

A row has Kafka's number and name, the exception of the domain that stands for it, and what a client does upon it. No
other module writes a number: it names the exception (`code_of`). A number without an exception is one that no part of
Odradek raises. Source: Apache Kafka 4.1, `org.apache.kafka.common.protocol.Errors`.

An exception without a row answers as its nearest ancestor that has one, and any other exception as
UNKNOWN_SERVER_ERROR. The text that a client sees comes from the exception. Unexpected exceptions are left out of that:
their text may say more than a client should read.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from odradek.foundation import errors, transaction_errors
from odradek.foundation.words import nearest_name

NONE: Final = 0


class Retry(Enum):
    """What a client does with a request that met the error."""

    NEVER = "the same request fails again"
    AGAIN = "another try may succeed"
    REFRESH = "another try may succeed once the metadata is read again"


AGAIN: Final = Retry.AGAIN
REFRESH: Final = Retry.REFRESH


class Row(NamedTuple):
    """One error: its number and name in Kafka, our exception for it or None, and whether clients try again."""

    code: int
    name: str
    kind: type[errors.OdradekError] | None = None
    retry: Retry = Retry.NEVER

    @property
    def text(self) -> str:
        """What the error means, for an answer that brings no message of its own."""
        kind = self.kind
        return self.name if kind is None else (kind.__doc__ or kind.__name__).strip()


ROWS: Final = (
    Row(-1, "UNKNOWN_SERVER_ERROR", errors.UnknownServerError),
    Row(1, "OFFSET_OUT_OF_RANGE", errors.OffsetOutOfRange),
    Row(2, "CORRUPT_MESSAGE", errors.CorruptRecord, AGAIN),
    Row(3, "UNKNOWN_TOPIC_OR_PARTITION", errors.UnknownTopicOrPartition, REFRESH),
    Row(4, "INVALID_FETCH_SIZE"),
    Row(5, "LEADER_NOT_AVAILABLE", errors.LeaderNotAvailable, REFRESH),
    Row(6, "NOT_LEADER_OR_FOLLOWER", errors.NotLeaderOrFollower, REFRESH),
    Row(7, "REQUEST_TIMED_OUT", errors.RequestTimedOut, AGAIN),
    Row(8, "BROKER_NOT_AVAILABLE", errors.BrokerNotAvailable),
    Row(9, "REPLICA_NOT_AVAILABLE"),
    Row(10, "MESSAGE_TOO_LARGE", errors.RecordTooLarge),
    Row(11, "STALE_CONTROLLER_EPOCH"),
    Row(12, "OFFSET_METADATA_TOO_LARGE", errors.InvalidCommitOffsetSize),
    Row(13, "NETWORK_EXCEPTION"),
    Row(14, "COORDINATOR_LOAD_IN_PROGRESS", errors.CoordinatorLoadInProgress, AGAIN),
    Row(15, "COORDINATOR_NOT_AVAILABLE", errors.CoordinatorNotAvailable, AGAIN),
    Row(16, "NOT_COORDINATOR", errors.NotCoordinator, AGAIN),
    Row(17, "INVALID_TOPIC_EXCEPTION", errors.InvalidTopic),
    Row(18, "RECORD_LIST_TOO_LARGE", errors.RecordListTooLarge),
    Row(19, "NOT_ENOUGH_REPLICAS", errors.NotEnoughReplicas, AGAIN),
    Row(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", errors.NotEnoughReplicasAfterAppend, AGAIN),
    Row(21, "INVALID_REQUIRED_ACKS", errors.InvalidRequiredAcks),
    Row(22, "ILLEGAL_GENERATION", errors.IllegalGeneration),
    Row(23, "INCONSISTENT_GROUP_PROTOCOL", errors.InconsistentGroupProtocol),
    Row(24, "INVALID_GROUP_ID", errors.InvalidGroupId),
    Row(25, "UNKNOWN_MEMBER_ID", errors.UnknownMemberId),
    Row(26, "INVALID_SESSION_TIMEOUT", errors.InvalidSessionTimeout),
    Row(27, "REBALANCE_IN_PROGRESS", errors.RebalanceInProgress),
    Row(28, "INVALID_COMMIT_OFFSET_SIZE"),
    Row(29, "TOPIC_AUTHORIZATION_FAILED", errors.TopicAuthorizationFailed),
    Row(30, "GROUP_AUTHORIZATION_FAILED", errors.GroupAuthorizationFailed),
    Row(31, "CLUSTER_AUTHORIZATION_FAILED", errors.ClusterAuthorizationFailed),
    Row(32, "INVALID_TIMESTAMP", errors.InvalidTimestamp),
    Row(33, "UNSUPPORTED_SASL_MECHANISM"),
    Row(34, "ILLEGAL_SASL_STATE"),
    Row(35, "UNSUPPORTED_VERSION", errors.UnsupportedVersion),
    Row(36, "TOPIC_ALREADY_EXISTS", errors.TopicAlreadyExists),
    Row(37, "INVALID_PARTITIONS", errors.InvalidPartitions),
    Row(38, "INVALID_REPLICATION_FACTOR", errors.InvalidReplicationFactor),
    Row(39, "INVALID_REPLICA_ASSIGNMENT", errors.InvalidReplicaAssignment),
    Row(40, "INVALID_CONFIG", errors.InvalidConfig),
    Row(41, "NOT_CONTROLLER", errors.NotController, REFRESH),
    Row(42, "INVALID_REQUEST", errors.InvalidRequest),
    Row(43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", errors.UnsupportedForMessageFormat),
    Row(44, "POLICY_VIOLATION", errors.PolicyViolation),
    Row(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", errors.OutOfOrderSequence),
    Row(46, "DUPLICATE_SEQUENCE_NUMBER", errors.DuplicateSequence),
    Row(47, "INVALID_PRODUCER_EPOCH", errors.InvalidProducerEpoch),
    Row(48, "INVALID_TXN_STATE", errors.InvalidTxnState),
    Row(49, "INVALID_PRODUCER_ID_MAPPING", errors.InvalidProducerIdMapping),
    Row(50, "INVALID_TRANSACTION_TIMEOUT", transaction_errors.InvalidTransactionTimeout),
    Row(51, "CONCURRENT_TRANSACTIONS", transaction_errors.ConcurrentTransactions, AGAIN),
    Row(52, "TRANSACTION_COORDINATOR_FENCED", errors.TransactionCoordinatorFenced),
    Row(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", errors.TransactionalIdAuthorizationFailed),
    Row(54, "SECURITY_DISABLED"),
    Row(55, "OPERATION_NOT_ATTEMPTED", transaction_errors.OperationNotAttempted),
    Row(56, "KAFKA_STORAGE_ERROR", errors.KafkaStorageError, REFRESH),
    Row(57, "LOG_DIR_NOT_FOUND", errors.LogDirNotFound),
    Row(58, "SASL_AUTHENTICATION_FAILED"),
    Row(59, "UNKNOWN_PRODUCER_ID", errors.UnknownProducerId),
    Row(60, "REASSIGNMENT_IN_PROGRESS"),
    Row(61, "DELEGATION_TOKEN_AUTH_DISABLED"),
    Row(62, "DELEGATION_TOKEN_NOT_FOUND"),
    Row(63, "DELEGATION_TOKEN_OWNER_MISMATCH"),
    Row(64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    Row(65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
    Row(66, "DELEGATION_TOKEN_EXPIRED"),
    Row(67, "INVALID_PRINCIPAL_TYPE"),
    Row(68, "NON_EMPTY_GROUP", errors.NonEmptyGroup),
    Row(69, "GROUP_ID_NOT_FOUND", errors.GroupIdNotFound),
    Row(70, "FETCH_SESSION_ID_NOT_FOUND", errors.FetchSessionIdNotFound),
    Row(71, "INVALID_FETCH_SESSION_EPOCH", errors.InvalidFetchSessionEpoch),
    Row(72, "LISTENER_NOT_FOUND", errors.ListenerNotFound),
    Row(73, "TOPIC_DELETION_DISABLED", errors.TopicDeletionDisabled),
    Row(74, "FENCED_LEADER_EPOCH", errors.FencedLeaderEpoch, REFRESH),
    Row(75, "UNKNOWN_LEADER_EPOCH", errors.UnknownLeaderEpoch, REFRESH),
    Row(76, "UNSUPPORTED_COMPRESSION_TYPE", errors.UnsupportedCompressionType),
    Row(77, "STALE_BROKER_EPOCH", errors.StaleBrokerEpoch),
    Row(78, "OFFSET_NOT_AVAILABLE", errors.OffsetNotAvailable, AGAIN),
    Row(79, "MEMBER_ID_REQUIRED", errors.MemberIdRequired),
    Row(80, "PREFERRED_LEADER_NOT_AVAILABLE", errors.PreferredLeaderNotAvailable),
    Row(81, "GROUP_MAX_SIZE_REACHED", errors.GroupMaxSizeReached),
    Row(82, "FENCED_INSTANCE_ID", errors.FencedInstanceId),
    Row(83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", errors.EligibleLeadersNotAvailable),
    Row(84, "ELECTION_NOT_NEEDED", errors.ElectionNotNeeded),
    Row(85, "NO_REASSIGNMENT_IN_PROGRESS", errors.NoReassignmentInProgress),
    Row(86, "GROUP_SUBSCRIBED_TO_TOPIC", errors.GroupSubscribedToTopic),
    Row(87, "INVALID_RECORD", errors.InvalidRecord),
    Row(88, "UNSTABLE_OFFSET_COMMIT"),
    Row(89, "THROTTLING_QUOTA_EXCEEDED", errors.ThrottlingQuotaExceeded, AGAIN),
    Row(90, "PRODUCER_FENCED", errors.ProducerFenced),
    Row(91, "RESOURCE_NOT_FOUND", errors.ResourceNotFound),
    Row(92, "DUPLICATE_RESOURCE"),
    Row(93, "UNACCEPTABLE_CREDENTIAL"),
    Row(94, "INCONSISTENT_VOTER_SET"),
    Row(95, "INVALID_UPDATE_VERSION", errors.InvalidUpdateVersion),
    Row(96, "FEATURE_UPDATE_FAILED"),
    Row(97, "PRINCIPAL_DESERIALIZATION_FAILURE"),
    Row(98, "SNAPSHOT_NOT_FOUND"),
    Row(99, "POSITION_OUT_OF_RANGE"),
    Row(100, "UNKNOWN_TOPIC_ID", errors.UnknownTopicId, REFRESH),
    Row(101, "DUPLICATE_BROKER_REGISTRATION", errors.DuplicateBrokerRegistration),
    Row(102, "BROKER_ID_NOT_REGISTERED"),
    Row(103, "INCONSISTENT_TOPIC_ID", errors.InconsistentTopicId, REFRESH),
    Row(104, "INCONSISTENT_CLUSTER_ID"),
    Row(105, "TRANSACTIONAL_ID_NOT_FOUND", transaction_errors.TransactionalIdNotFound),
    Row(106, "FETCH_SESSION_TOPIC_ID_ERROR", errors.FetchSessionTopicIdError),
    Row(107, "INELIGIBLE_REPLICA", errors.IneligibleReplica),
    Row(108, "NEW_LEADER_ELECTED"),
    Row(109, "OFFSET_MOVED_TO_TIERED_STORAGE"),
    Row(110, "FENCED_MEMBER_EPOCH", errors.FencedMemberEpoch),
    Row(111, "UNRELEASED_INSTANCE_ID", errors.UnreleasedInstanceId),
    Row(112, "UNSUPPORTED_ASSIGNOR", errors.UnsupportedAssignor),
    Row(113, "STALE_MEMBER_EPOCH", errors.StaleMemberEpoch),
    Row(114, "MISMATCHED_ENDPOINT_TYPE", errors.MismatchedEndpointType),
    Row(115, "UNSUPPORTED_ENDPOINT_TYPE", errors.UnsupportedEndpointType),
    Row(116, "UNKNOWN_CONTROLLER_ID"),
    Row(117, "UNKNOWN_SUBSCRIPTION_ID"),
    Row(118, "TELEMETRY_TOO_LARGE"),
    Row(119, "INVALID_REGISTRATION"),
    Row(120, "TRANSACTION_ABORTABLE", transaction_errors.TransactionAbortable),
    Row(121, "INVALID_RECORD_STATE"),
    Row(122, "SHARE_SESSION_NOT_FOUND"),
    Row(123, "INVALID_SHARE_SESSION_EPOCH"),
    Row(124, "FENCED_STATE_EPOCH"),
    Row(125, "INVALID_VOTER_KEY"),
    Row(126, "DUPLICATE_VOTER"),
    Row(127, "VOTER_NOT_FOUND"),
    Row(128, "INVALID_REGULAR_EXPRESSION", errors.InvalidRegularExpression),
    Row(129, "REBOOTSTRAP_REQUIRED"),
    Row(130, "STREAMS_INVALID_TOPOLOGY"),
    Row(131, "STREAMS_INVALID_TOPOLOGY_EPOCH"),
    Row(132, "STREAMS_TOPOLOGY_FENCED"),
    Row(133, "SHARE_SESSION_LIMIT_REACHED"),
)

BY_CODE: Final[dict[int, Row]] = {row.code: row for row in ROWS}
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
    """What the client may read about `error`: the text of the domain's exception, a general line for another."""
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
