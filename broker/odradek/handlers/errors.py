"""From an exception of the domain to the number that Kafka's protocol gives it, in one tested table.

Nothing else in the broker writes an error number. An exception without a row answers as its nearest
ancestor that has one, and any other exception as UNKNOWN_SERVER_ERROR. The text that a client sees comes
from the exception, save for unexpected ones, whose text might say more than a client should read.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation import errors

NONE: Final = 0
UNKNOWN_SERVER_ERROR: Final = -1

ERROR_CODES: Final[dict[type[errors.OdradekError], int]] = {
    errors.UnknownServerError: UNKNOWN_SERVER_ERROR,
    errors.OffsetOutOfRange: 1,
    errors.CorruptRecord: 2,
    errors.UnknownTopicOrPartition: 3,
    errors.LeaderNotAvailable: 5,
    errors.NotLeaderOrFollower: 6,
    errors.RequestTimedOut: 7,
    errors.BrokerNotAvailable: 8,
    errors.RecordTooLarge: 10,
    errors.InvalidCommitOffsetSize: 12,
    errors.CoordinatorLoadInProgress: 14,
    errors.CoordinatorNotAvailable: 15,
    errors.NotCoordinator: 16,
    errors.InvalidTopic: 17,
    errors.RecordListTooLarge: 18,
    errors.NotEnoughReplicas: 19,
    errors.NotEnoughReplicasAfterAppend: 20,
    errors.InvalidRequiredAcks: 21,
    errors.IllegalGeneration: 22,
    errors.InconsistentGroupProtocol: 23,
    errors.InvalidGroupId: 24,
    errors.UnknownMemberId: 25,
    errors.InvalidSessionTimeout: 26,
    errors.RebalanceInProgress: 27,
    errors.TopicAuthorizationFailed: 29,
    errors.GroupAuthorizationFailed: 30,
    errors.ClusterAuthorizationFailed: 31,
    errors.InvalidTimestamp: 32,
    errors.UnsupportedVersion: 35,
    errors.TopicAlreadyExists: 36,
    errors.InvalidPartitions: 37,
    errors.InvalidReplicationFactor: 38,
    errors.InvalidReplicaAssignment: 39,
    errors.InvalidConfig: 40,
    errors.NotController: 41,
    errors.InvalidRequest: 42,
    errors.UnsupportedForMessageFormat: 43,
    errors.PolicyViolation: 44,
    errors.OutOfOrderSequence: 45,
    errors.DuplicateSequence: 46,
    errors.InvalidProducerEpoch: 47,
    errors.InvalidTxnState: 48,
    errors.InvalidProducerIdMapping: 49,
    errors.TransactionCoordinatorFenced: 52,
    errors.TransactionalIdAuthorizationFailed: 53,
    errors.KafkaStorageError: 56,
    errors.LogDirNotFound: 57,
    errors.UnknownProducerId: 59,
    errors.NonEmptyGroup: 68,
    errors.GroupIdNotFound: 69,
    errors.FetchSessionIdNotFound: 70,
    errors.InvalidFetchSessionEpoch: 71,
    errors.ListenerNotFound: 72,
    errors.TopicDeletionDisabled: 73,
    errors.FencedLeaderEpoch: 74,
    errors.InvalidUpdateVersion: 95,
    errors.StaleBrokerEpoch: 77,
    errors.ElectionNotNeeded: 84,
    errors.PreferredLeaderNotAvailable: 80,
    errors.EligibleLeadersNotAvailable: 83,
    errors.IneligibleReplica: 107,
    errors.UnknownLeaderEpoch: 75,
    errors.UnsupportedCompressionType: 76,
    errors.OffsetNotAvailable: 78,
    errors.MemberIdRequired: 79,
    errors.GroupMaxSizeReached: 81,
    errors.FencedInstanceId: 82,
    errors.NoReassignmentInProgress: 85,
    errors.GroupSubscribedToTopic: 86,
    errors.InvalidRecord: 87,
    errors.ThrottlingQuotaExceeded: 89,
    errors.ProducerFenced: 90,
    errors.ResourceNotFound: 91,
    errors.UnknownTopicId: 100,
    errors.DuplicateBrokerRegistration: 101,
    errors.InconsistentTopicId: 103,
    errors.FetchSessionTopicIdError: 106,
    errors.FencedMemberEpoch: 110,
    errors.UnreleasedInstanceId: 111,
    errors.UnsupportedAssignor: 112,
    errors.StaleMemberEpoch: 113,
    errors.MismatchedEndpointType: 114,
    errors.UnsupportedEndpointType: 115,
    errors.InvalidRegularExpression: 128,
}


def error_code(error: BaseException | None) -> int:
    """The number on the wire for `error`; 0 for None."""
    if error is None:
        return NONE
    code = ERROR_CODES.get(type(error))  # type: ignore[arg-type]
    if code is not None:
        return code
    for ancestor in type(error).__mro__:
        if ancestor in ERROR_CODES:
            return ERROR_CODES[ancestor]
    return UNKNOWN_SERVER_ERROR


def error_of(code: int, message: str | None) -> errors.RequestError | None:
    """The error that another of our processes answered with; None for success."""
    if code == NONE:
        return None
    for kind, number in ERROR_CODES.items():
        if number == code and issubclass(kind, errors.RequestError):
            return kind(message or kind.__name__)
    return errors.BrokerNotAvailable(message or f"the controller answered with the error {code}")


def error_message(error: BaseException | None) -> str | None:
    """What the client may read about `error`: its text when it is the domain's, a general line when it is
    not.
    """
    if error is None:
        return None
    if isinstance(error, errors.RequestError):
        return str(error) or None
    return "The broker failed unexpectedly on this request; its log tells why."
