"""The errors of the domain, as exceptions.

A class is named as Apache Kafka names the error; `wire.protocol.errors` has its number on the wire. The message is for
the client's user: what happened, to what, and what to do about it.
"""

from __future__ import annotations


class OdradekError(Exception):
    """The root of every error that this package raises on purpose."""


class DependencyError(OdradekError):
    """A library that this package needs is installed in a version that it cannot work with."""


class UnknownServerError(OdradekError):
    """Something unexpected failed in the broker; its log has the trace."""


class RequestError(OdradekError):
    """A request that cannot be done. It is answered with an error code, and the connection stays open."""


# --- the content of requests --------------------------------------------------------------------------------------


class InvalidRequest(RequestError):
    """The request contradicts itself or the protocol."""


class UnsupportedVersion(RequestError):
    """The API exists, but not in the version asked for."""


class UnsupportedForMessageFormat(RequestError):
    """The stored message format cannot express the requested value."""


class RecordsRefused(OdradekError):
    """The base of refusals of a batch that name its records: `record_errors` are (index in the batch, reason)."""

    def __init__(self, message: str = "", *, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class InvalidTimestamp(RecordsRefused, RequestError):
    """A record's timestamp lies outside the bounds that the topic allows."""


class InvalidRequiredAcks(RequestError):
    """acks is none of 0, 1 and -1."""


class InvalidConfig(RequestError):
    """A configuration key or value that is not allowed."""


class InvalidReplicationFactor(RequestError):
    """A replication factor below one or above the number of brokers."""


class NoReassignmentInProgress(RequestError):
    """The partition is not being reassigned."""


class InvalidReplicaAssignment(RequestError):
    """An invalid explicit replica assignment."""


class InvalidPartitions(RequestError):
    """A partition count below one, or one that would shrink a topic."""


class InvalidTopic(RequestError):
    """A topic name that is not allowed, or an operation that is not allowed on this topic."""


class TopicAlreadyExists(RequestError):
    """A topic of that name exists already."""


class TopicDeletionDisabled(RequestError):
    """delete.topic.enable is false."""


class PolicyViolation(RequestError):
    """The request is valid but a policy of this cluster refuses it."""


class InvalidCommitOffsetSize(RequestError):
    """Offset metadata longer than offset.metadata.max.bytes."""


class InvalidGroupId(RequestError):
    """A group id that is empty or not allowed here."""


class InvalidSessionTimeout(RequestError):
    """A session timeout outside group.min.session.timeout.ms and group.max.session.timeout.ms."""


class UnsupportedCompressionType(RequestError):
    """A codec that the request's version does not know."""


# --- partitions and logs -------------------------------------------------------------------------------------------


class MissingByName(RequestError):
    """The base of errors about a name that nothing has. `missing_name` is that name, where the raiser knows it.
    `is_queue` says that a queue was meant, and no other group.
    """

    def __init__(self, *words: str, missing_name: str | None = None, is_queue: bool = False) -> None:
        super().__init__(*words)
        self.missing_name = missing_name
        self.is_queue = is_queue


class UnknownTopicOrPartition(MissingByName):
    """No such topic or partition on this broker."""


class UnknownTopicId(RequestError):
    """No topic has this id; the topic may have been deleted and created again."""


class InconsistentTopicId(RequestError):
    """The topic's id here is another than the one that the request or its session names."""


class NotLeaderOrFollower(RequestError):
    """This broker does not lead the partition; refresh the metadata."""


class LeaderNotAvailable(RequestError):
    """The partition has no leader at the moment."""


class FencedLeaderEpoch(RequestError):
    """The request's leader epoch is older than the broker's."""


class StaleBrokerEpoch(RequestError):
    """The request is from before the broker's current registration, or the broker is not registered."""


class BrokerIdNotRegistered(RequestError):
    """The cluster does not know a broker with this id."""


class ElectionNotNeeded(RequestError):
    """The partition has the leader that an election would give it."""


class PreferredLeaderNotAvailable(RequestError):
    """The first replica is not live and in sync."""


class EligibleLeadersNotAvailable(RequestError):
    """No replica of the partition could lead it."""


class InvalidUpdateVersion(RequestError):
    """A change of a partition was requested for an older state of it."""


class IneligibleReplica(RequestError):
    """A replica on a fenced or stopping broker cannot join the in-sync set."""


class UnknownLeaderEpoch(RequestError):
    """The request's leader epoch is newer than the broker's."""


class OffsetOutOfRange(RequestError):
    """The offset lies below the log's start or above its end."""


class OffsetNotAvailable(RequestError):
    """The high watermark of a new leader has not caught up yet; try again."""


class CorruptRecord(RequestError):
    """A batch whose CRC, length or layout is wrong."""


class InvalidRecord(RecordsRefused, RequestError):
    """A whole batch that is not allowed: no key on a compacted topic, wrong offsets, a control batch from a client."""


class RecordTooLarge(RequestError):
    """A batch larger than the topic's max.message.bytes."""


class RecordListTooLarge(RequestError):
    """More bytes in one append than a segment may hold."""


class KafkaStorageError(RequestError):
    """The disk under the partition failed; the partition is offline here."""


class ReplicaNotAvailable(RequestError):
    """The replica is not on this broker."""


class LogDirNotFound(RequestError):
    """No log directory of that path is configured."""


class NotEnoughReplicas(RequestError):
    """Fewer replicas in sync than min.insync.replicas; nothing was written."""


class NotEnoughReplicasAfterAppend(RequestError):
    """Written, but fewer replicas in sync than min.insync.replicas hold it."""


class RequestTimedOut(RequestError):
    """The time the request allowed ran out."""


# --- fetch sessions ------------------------------------------------------------------------------------------------


class FetchSessionIdNotFound(RequestError):
    """The fetch session was evicted or never was; start a new one."""


class InvalidFetchSessionEpoch(RequestError):
    """The fetch session's epoch is not the next one."""


class FetchSessionTopicIdError(RequestError):
    """The session mixes topic names and topic ids."""


# --- groups --------------------------------------------------------------------------------------------------------


class CoordinatorNotAvailable(RequestError):
    """The coordinator is not available at the moment; try again."""


class CoordinatorLoadInProgress(RequestError):
    """The coordinator is still reading its state; try again."""


class NotCoordinator(RequestError):
    """Another broker coordinates this group."""


class IllegalGeneration(RequestError):
    """The generation is not the group's current one."""


class InconsistentGroupProtocol(RequestError):
    """The member shares no protocol with the rest of the group, or is of another protocol type."""


class UnknownMemberId(RequestError):
    """The member is not part of the group."""


class MemberIdRequired(RequestError):
    """Join again with the member id in this answer. `member_id` holds it."""

    def __init__(self, message: str = "join again with the member id given", *, member_id: str = "") -> None:
        super().__init__(message)
        self.member_id = member_id


class RebalanceInProgress(RequestError):
    """The group rebalances; join again."""


class FencedInstanceId(RequestError):
    """Another member has taken this static instance id."""


class UnreleasedInstanceId(RequestError):
    """The static instance id is still in use by another member."""


class GroupMaxSizeReached(RequestError):
    """The group has group.max.size members."""


class GroupIdNotFound(MissingByName):
    """No group of that id."""


class NonEmptyGroup(RequestError):
    """The group has members; stop them first."""


class GroupSubscribedToTopic(RequestError):
    """The group still subscribes to the topic."""


class FencedMemberEpoch(RequestError):
    """The member's epoch is not the coordinator's."""


class StreamsInvalidTopology(RequestError):
    """The topology of a Kafka Streams application can never run."""


class StaleMemberEpoch(RequestError):
    """The member must fetch its new epoch with a heartbeat and try again."""


class UnsupportedAssignor(RequestError):
    """No server-side assignor of that name."""


class InvalidRegularExpression(RequestError):
    """The subscription's regular expression cannot be compiled."""


# --- share groups (KIP-932) -----------------------------------------------------------------------------------------


class InvalidRecordState(RequestError):
    """The record is not acquired by this member, so it cannot be acknowledged by it."""


class ShareSessionNotFound(RequestError):
    """The broker does not know the share session; begin one with epoch 0."""


class InvalidShareSessionEpoch(RequestError):
    """The share session is at another epoch; begin one with epoch 0."""


class FencedStateEpoch(RequestError):
    """The state of the share-partition was initialized again since, by a newer epoch."""


class ShareSessionLimitReached(RequestError):
    """The broker has as many share sessions as it may; try again later."""


# --- cluster -------------------------------------------------------------------------------------------------------


class BrokerNotAvailable(RequestError):
    """The requested broker is not available."""


class NotController(RequestError):
    """This node is not the active controller."""


class DuplicateBrokerRegistration(RequestError):
    """Another live broker has this id."""


class ListenerNotFound(RequestError):
    """The partition's leader does not listen where the request came in."""


class MismatchedEndpointType(RequestError):
    """The request asks for another kind of node than this one."""


class UnsupportedEndpointType(RequestError):
    """No kind of node has this number."""


class ResourceNotFound(RequestError):
    """The configuration resource does not exist."""


class RebootstrapRequired(RequestError):
    """The broker at this address is another than the one that the client means; it has to bootstrap again."""


class ThrottlingQuotaExceeded(RequestError):
    """A quota was exceeded; wait for the time in the answer."""


class UnknownSubscriptionId(RequestError):
    """The client's subscription to its metrics has changed; it asks for the new one."""


class TelemetryTooLarge(RequestError):
    """Pushed metrics have more bytes than the broker accepts."""


# --- not answers on the wire ---------------------------------------------------------------------------------------


class SettingError(OdradekError):
    """A wrong key or value of a setting. The message names the key, the value and the allowed ones."""


class FrameError(OdradekError):
    """Bytes on a connection that are not a frame of the protocol; the connection is closed."""


class DirectoryLocked(OdradekError):
    """Another process uses the log directory."""


class InconsistentClusterId(OdradekError):
    """The data belongs to another cluster."""
