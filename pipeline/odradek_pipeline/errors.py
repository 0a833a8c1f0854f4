"""The failures of a run, and the exit code that each has: one table, for schedulers and for people.

A number never changes its meaning. Numbers up to 7 are those of `odradek`; the pipeline's own begin at 20.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class PipelineExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONNECTION = 4
    TIMEOUT = 5
    TRUNCATED = 20
    RECREATED = 21
    FENCED = 22
    RECORD_LOST = 23
    BAD_RECORDS = 24
    INCOMPLETE = 30
    REOPENED = 31
    UNEXPLAINED = 32
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[PipelineExitCode, str] = {
    PipelineExitCode.OK: "done, also when there was nothing to do",
    PipelineExitCode.FAILED: "failed for another reason than those below; the message on stderr says which",
    PipelineExitCode.USAGE: "wrong use: an unknown option or setting, or a value that cannot be",
    PipelineExitCode.NOT_FOUND: "the topic, the output or the run that is named does not exist",
    PipelineExitCode.CONNECTION: "no broker could be reached",
    PipelineExitCode.TIMEOUT: "a broker did not answer in time",
    PipelineExitCode.TRUNCATED: "`truncated`: the log no longer has records that were to be read",
    PipelineExitCode.RECREATED: "`recreated`: the topic was deleted and made again, or the cluster is another one",
    PipelineExitCode.FENCED: "`fenced`: another run committed the same ranges first; this one changed nothing",
    PipelineExitCode.RECORD_LOST: "`record-lost`: the output has rows, and its record of ranges is gone",
    PipelineExitCode.BAD_RECORDS: "`bad-records`: a record could not be read, or more of them than are allowed",
    PipelineExitCode.INCOMPLETE: "`incomplete`: the topic is not complete up to the time that was asked for",
    PipelineExitCode.REOPENED: "`reopened`: windows before that time opened again after the version that was given",
    PipelineExitCode.UNEXPLAINED: "`unexplained`: a table and the log differ, and neither the log nor a run says why",
    PipelineExitCode.INTERRUPTED: "stopped by Ctrl-C",
    PipelineExitCode.TERMINATED: "stopped by SIGTERM; a stream that ends a batch first ends with 0",
}


class TerminatedError(BaseException):
    """SIGTERM ended the command. It is no Exception, like KeyboardInterrupt."""


class PipelineError(Exception):
    """A run cannot continue; the text says what happened, to what, and what to do."""

    exit_code: ClassVar[PipelineExitCode] = PipelineExitCode.FAILED


class JobRefusedError(PipelineError):
    """A job is asked for what cannot be; the text says what can."""

    exit_code = PipelineExitCode.USAGE


class PipelineSettingError(JobRefusedError):
    """A setting that is unknown, missing, or has a value of another kind."""


class NotFoundError(PipelineError):
    exit_code = PipelineExitCode.NOT_FOUND


class UnreachableError(PipelineError):
    exit_code = PipelineExitCode.CONNECTION


class AnswerTimeoutError(PipelineError):
    exit_code = PipelineExitCode.TIMEOUT


class TruncatedError(PipelineError):
    """The log start has passed offsets that were to be read, or the log ends before what was read from it."""

    exit_code = PipelineExitCode.TRUNCATED


class RecreatedError(PipelineError):
    """The topic of this name has another id than the one that the output holds."""

    exit_code = PipelineExitCode.RECREATED


class FencedError(PipelineError):
    """Another run committed first; nothing of this run is in the output."""

    exit_code = PipelineExitCode.FENCED


class RecordLostError(PipelineError):
    """The output has rows, and the record of their ranges cannot be found."""

    exit_code = PipelineExitCode.RECORD_LOST


class BadRecordsError(PipelineError):
    """Records cannot be read with the schema, and the run may not send them to the dead letters."""

    exit_code = PipelineExitCode.BAD_RECORDS


class OptionError(ValueError):
    """An option of `format("odradek")` is missing, unknown, or has a wrong value; the text has the remedy."""
