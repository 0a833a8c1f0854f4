"""What can go wrong between a client and its brokers, and what a code on the wire means.

Codes become the exceptions of `foundation.errors`; two tuples say which of them are worth another try, and which
mean that the client's picture of the cluster is old. A code without a row becomes `UnexpectedErrorCode` with its
number, so nothing is taken for success.
"""

from __future__ import annotations

from odradek.foundation import errors
from odradek.foundation.errors import OdradekError, RequestError


class ClientError(OdradekError):
    """The root of what fails on this side of the connection."""


class ConnectionFailed(ClientError):
    """No connection, or one that broke: refused, unresolved, no Kafka broker, closed mid-way."""


class ClientTimeout(ClientError):
    """No answer in the time allowed. Whether the broker acted is not known."""


class ClientClosed(ClientError):
    """The client, producer or consumer was closed while this was under way."""


class NoSuchBroker(ClientError):
    """The cluster has no live broker with that id."""


class UnsupportedByBroker(ClientError):
    """The broker does not offer the API, or no version that this client knows."""


class BufferFull(ClientError):
    """The producer's buffer stayed full for as long as a send may wait."""


class LogTruncated(errors.OffsetOutOfRange):
    """Records that were read are gone from the log: a replica without them was elected to lead (KIP-320)."""


class UnexpectedErrorCode(RequestError):
    """The broker answered with an error code that this client has no name for."""


ERRORS_BY_CODE: dict[int, type[OdradekError]] = {
    -1: errors.UnknownServerError,
    1: errors.OffsetOutOfRange,
    2: errors.CorruptRecord,
    3: errors.UnknownTopicOrPartition,
    5: errors.LeaderNotAvailable,
    6: errors.NotLeaderOrFollower,
    7: errors.RequestTimedOut,
    8: errors.BrokerNotAvailable,
    10: errors.RecordTooLarge,
    12: errors.InvalidCommitOffsetSize,
    14: errors.CoordinatorLoadInProgress,
    15: errors.CoordinatorNotAvailable,
    16: errors.NotCoordinator,
    17: errors.InvalidTopic,
    18: errors.RecordListTooLarge,
    19: errors.NotEnoughReplicas,
    20: errors.NotEnoughReplicasAfterAppend,
    21: errors.InvalidRequiredAcks,
    22: errors.IllegalGeneration,
    23: errors.InconsistentGroupProtocol,
    24: errors.InvalidGroupId,
    25: errors.UnknownMemberId,
    26: errors.InvalidSessionTimeout,
    27: errors.RebalanceInProgress,
    29: errors.TopicAuthorizationFailed,
    30: errors.GroupAuthorizationFailed,
    31: errors.ClusterAuthorizationFailed,
    32: errors.InvalidTimestamp,
    35: errors.UnsupportedVersion,
    36: errors.TopicAlreadyExists,
    37: errors.InvalidPartitions,
    38: errors.InvalidReplicationFactor,
    39: errors.InvalidReplicaAssignment,
    40: errors.InvalidConfig,
    41: errors.NotController,
    42: errors.InvalidRequest,
    43: errors.UnsupportedForMessageFormat,
    44: errors.PolicyViolation,
    45: errors.OutOfOrderSequence,
    46: errors.DuplicateSequence,
    47: errors.InvalidProducerEpoch,
    49: errors.InvalidProducerIdMapping,
    53: errors.TransactionalIdAuthorizationFailed,
    56: errors.KafkaStorageError,
    57: errors.LogDirNotFound,
    59: errors.UnknownProducerId,
    68: errors.NonEmptyGroup,
    69: errors.GroupIdNotFound,
    70: errors.FetchSessionIdNotFound,
    71: errors.InvalidFetchSessionEpoch,
    73: errors.TopicDeletionDisabled,
    74: errors.FencedLeaderEpoch,
    75: errors.UnknownLeaderEpoch,
    76: errors.UnsupportedCompressionType,
    78: errors.OffsetNotAvailable,
    80: errors.PreferredLeaderNotAvailable,
    81: errors.GroupMaxSizeReached,
    82: errors.FencedInstanceId,
    83: errors.EligibleLeadersNotAvailable,
    84: errors.ElectionNotNeeded,
    85: errors.NoReassignmentInProgress,
    86: errors.GroupSubscribedToTopic,
    87: errors.InvalidRecord,
    89: errors.ThrottlingQuotaExceeded,
    90: errors.ProducerFenced,
    100: errors.UnknownTopicId,
    103: errors.InconsistentTopicId,
    106: errors.FetchSessionTopicIdError,
    110: errors.FencedMemberEpoch,
    111: errors.UnreleasedInstanceId,
    112: errors.UnsupportedAssignor,
    113: errors.StaleMemberEpoch,
    128: errors.InvalidRegularExpression,
}
CODES_BY_ERROR: dict[type[OdradekError], int] = {error: code for code, error in ERRORS_BY_CODE.items()} | {
    errors.MemberIdRequired: 79
}
MEMBER_ID_REQUIRED_CODE = 79

# The picture of the cluster is old: ask for metadata, then try again.
METADATA_STALE = (
    errors.UnknownTopicOrPartition,
    errors.LeaderNotAvailable,
    errors.NotLeaderOrFollower,
    errors.FencedLeaderEpoch,
    errors.UnknownLeaderEpoch,
    errors.KafkaStorageError,
    errors.UnknownTopicId,
    errors.InconsistentTopicId,
    errors.NotController,
)
# Another try may succeed without anybody changing anything.
RETRIABLE = (
    *METADATA_STALE,
    errors.CorruptRecord,
    errors.RequestTimedOut,
    errors.CoordinatorLoadInProgress,
    errors.CoordinatorNotAvailable,
    errors.NotCoordinator,
    errors.NotEnoughReplicas,
    errors.NotEnoughReplicasAfterAppend,
    errors.OffsetNotAvailable,
    errors.ThrottlingQuotaExceeded,
    ConnectionFailed,
)


def error_for(code: int, message: str | None = None, *, about: str = "") -> OdradekError | None:
    """The exception for a code on the wire, not raised; None for success.

    `message` is the broker's, when it sent one; `about` names what the answer speaks of.
    """
    if code == 0:
        return None
    if code == MEMBER_ID_REQUIRED_CODE:
        return errors.MemberIdRequired(message or "join again with the member id given", member_id="")
    kind = ERRORS_BY_CODE.get(code)
    if kind is None:
        kind = UnexpectedErrorCode
        message = (
            f"{message} (error code {code})" if message else f"the broker answered with error code {code}"
        )
    words = message or (kind.__doc__ or kind.__name__).strip()
    return kind(f"{about}: {words}" if about and about not in words else words)


def raise_for(code: int, message: str | None = None, *, about: str = "") -> None:
    """Raise the exception for a code on the wire; do nothing for success."""
    failure = error_for(code, message, about=about)
    if failure is not None:
        raise failure
