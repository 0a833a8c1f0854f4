"""The exit codes of `odradek`, for scripts: one table, shown in docs/reference/cli.md.

An exit code is chosen from the error's class alone, never from its words. Codes above 128 are the shell's custom for
a signal.
"""

from __future__ import annotations

from enum import IntEnum

from odradek.foundation import errors, transaction_errors


class ExitCode(IntEnum):
    """One number for each kind of outcome. A number never changes its meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONNECTION = 4
    TIMEOUT = 5
    EXISTS = 6
    REFUSED = 7
    DAMAGED = 8
    DEGRADED = 9
    UNHEALTHY = 10
    HUNG_UP = 129
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
    TERMINATED = 143


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "failed for another reason than those below; the message on stderr says which",
    ExitCode.USAGE: "wrong use: an unknown option, a value that cannot be read, a setting that is not allowed at start",
    ExitCode.NOT_FOUND: "the topic, partition, group, broker, user or file named does not exist",
    ExitCode.CONNECTION: "no broker could be reached at the address, or the answer is not that of a Kafka broker. "
    "consume: the same of the schema registry",
    ExitCode.TIMEOUT: "the broker did not answer in the time that --timeout gives",
    ExitCode.EXISTS: "what was to be created exists already",
    ExitCode.REFUSED: "the broker refused the request: a value or a state that it does not allow",
    ExitCode.DAMAGED: "dump-log found damage",
    ExitCode.DEGRADED: "status: everything is served, but a broker or replicas are missing, or a disk is nearly full. "
    "audit-access: something is open to others. topics create and alter: done, but a full disk refuses the records",
    ExitCode.UNHEALTHY: "status: partitions cannot be read or written, a disk is full, or there is no controller",
    ExitCode.HUNG_UP: "stopped since its terminal was closed (SIGHUP)",
    ExitCode.INTERRUPTED: "stopped by Ctrl-C",
    ExitCode.OUTPUT_CLOSED: "the reader of stdout has ended (as in `odradek consume t | head`)",
    ExitCode.TERMINATED: "stopped by SIGTERM, as from `kill`",
}

_NOT_FOUND = (
    errors.UnknownTopicOrPartition,
    errors.UnknownTopicId,
    errors.GroupIdNotFound,
    errors.LogDirNotFound,
    errors.ResourceNotFound,
    transaction_errors.TransactionalIdNotFound,
    FileNotFoundError,
)


def exit_code_for(failure: BaseException) -> ExitCode:
    """The exit code of a failure: that of the first row with its class."""
    from odradek.client.errors import ClientTimeout, ConnectionFailed, NoSuchBroker, SchemaRegistryUnavailable

    codes: tuple[tuple[type | tuple[type, ...], ExitCode], ...] = (
        (KeyboardInterrupt, ExitCode.INTERRUPTED),
        (BrokenPipeError, ExitCode.OUTPUT_CLOSED),
        ((ClientTimeout, errors.RequestTimedOut, TimeoutError), ExitCode.TIMEOUT),
        ((ConnectionFailed, SchemaRegistryUnavailable), ExitCode.CONNECTION),
        (errors.SettingError, ExitCode.USAGE),
        ((*_NOT_FOUND, NoSuchBroker), ExitCode.NOT_FOUND),
        ((errors.TopicAlreadyExists, FileExistsError), ExitCode.EXISTS),
        (errors.RequestError, ExitCode.REFUSED),
    )
    return next((code for kinds, code in codes if isinstance(failure, kinds)), ExitCode.FAILED)
