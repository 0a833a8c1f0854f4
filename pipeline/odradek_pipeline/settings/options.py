"""The options of `format("odradek")`: their declarations, and one way to read them.

A name is the stock connector's or Kafka's where there is one. Its case does not matter. It may have `odradek.` or
`kafka.` before it, so an option of the stock connector works as it is. A misspelt name is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from odradek.client.properties import SECURITY_PROPERTIES, SECURITY_PROTOCOL
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.declaration import OneOf, Setting, boolean, integer, long, text
from odradek.foundation.settings.tables import SettingTable, read_setting, suggest
from odradek_pipeline.errors import OptionError

_PREFIXES: Final = ("odradek.", "kafka.")
_OBJECT: Final = "a JSON object with names of topics"


def word(default: str, doc: str, *allowed: str) -> Setting:
    """One of a few words, in any case; lower case in Python."""
    declared: Setting = text(default, doc, OneOf(*allowed, any_case=True), into=str.lower)
    return declared


def parse_object(given: str) -> dict[str, Any]:
    """Raises ValueError with a description of JSON objects."""
    try:
        value = json.loads(given)
    except ValueError as failure:
        raise ValueError(f"{_OBJECT} ({failure})") from None
    if not isinstance(value, dict):
        raise ValueError(_OBJECT)
    return value


def parse_offsets(given: str) -> str | dict[str, Any]:
    """`earliest`, `latest`, or JSON. Raises ValueError with a description of the three."""
    if given.lower() in ("earliest", "latest"):
        return given.lower()
    try:
        return parse_object(given)
    except ValueError as wanted:
        raise ValueError(f"earliest, latest, or {wanted}") from None


CONNECTION: Final = SettingTable(
    {
        "bootstrap.servers": text(None, "addresses of brokers, `host:port,host:port`; it has to be set"),
        "client.id": text("odradek-spark", "the name that the brokers see in their metrics and quotas"),
        "request.timeout.ms": integer(30000, "the longest time that one request may take", 1),
    }
)

# Accepted beside the options of any source or sink; docs/security.md has them.
SECURITY: Final = SettingTable(
    {name: text(None, "as in Kafka's clients") for name in (SECURITY_PROTOCOL, *sorted(SECURITY_PROPERTIES))}
)

READING: Final = SettingTable(
    CONNECTION,
    {
        "subscribe": text(None, "the names of topics, with commas between them"),
        "subscribePattern": text(None, "a regular expression that matches whole names of topics"),
        "assign": text(None, 'partitions as JSON: `{"orders":[0,1]}`', into=parse_object),
        "startingOffsets": text(
            "earliest",
            'the first offsets: `earliest`, `latest` (streams), or JSON `{"orders":{"0":10,"1":-2}}`; -2 is the '
            "earliest, -1 the latest. JSON names every partition. A stream uses it at its first start only. Its "
            "default is `latest`",
            into=parse_offsets,
        ),
        "endingOffsets": text(
            "latest",
            "the ends of a batch: `latest`, or JSON as above; an end is not read itself",
            into=parse_offsets,
        ),
        "startingTimestamp": long(
            None, "the first record at this time or later, in milliseconds since 1970", 0
        ),
        "endingTimestamp": long(None, "the end of a batch: before the first record at this time or later", 0),
        "startingOffsetsByTimestamp": text(
            None, 'a time for each partition as JSON: `{"orders":{"0":1700000000000}}`', into=parse_object
        ),
        "endingOffsetsByTimestamp": text(None, "the same for the ends of a batch", into=parse_object),
        "startingOffsetsByTimestampStrategy": word(
            "error",
            "for a partition with no record so late: `error`, or `latest` to start at its end",
            "error",
            "latest",
        ),
        "isolation.level": word(
            "read_uncommitted",
            "`read_committed` leaves out records of aborted and open transactions",
            "read_uncommitted",
            "read_committed",
        ),
        "minPartitions": integer(None, "at least so many tasks: large ranges of offsets are split", 1),
        "maxRecordsPerPartition": long(None, "at most so many offsets in one task", 1),
        "maxOffsetsPerTrigger": long(
            None, "at most so many offsets in one batch of a stream, shared by lag", 1
        ),
        "availableNow": boolean(
            False,
            "`true`: the first batch of a stream reads all there is, and later records are left. Set it with the "
            "trigger `availableNow`, where Spark 4.0 runs one batch whatever `maxOffsetsPerTrigger` is",
        ),
        "failOnDataLoss": boolean(
            True,
            "`false` continues behind records that are no longer there, with a warning; `true` fails and names them",
        ),
        "includeHeaders": boolean(False, "`true` adds the column `headers`"),
        "arrowBatchRows": integer(50000, "rows of one Arrow batch", 1),
        "arrowBatchBytes": long(
            33554432, "bytes of records at which an Arrow batch is sent with fewer rows", 1
        ),
        "max.partition.fetch.bytes": integer(4194304, "bytes of one fetch; a task holds two of them", 1024),
        "pollTimeoutMs": integer(120000, "a task fails when a partition has sent nothing for so long", 1),
    },
)

WRITING: Final = SettingTable(
    CONNECTION,
    {
        "topic": text("", "the topic of all rows; without it the column `topic` names each row's"),
        "sinkId": text(
            "",
            "the name of this sink in transactional ids and markers. A stream has its checkpoint's location in its "
            "place. A batch without it is written again when its job is run again",
        ),
        "markerTopic": text(
            "odradek-sink-markers", "the compacted topic with the markers; made when it is missing"
        ),
        "transaction.timeout.ms": integer(
            900000,
            "the longest time from a batch's first row to its end; the broker's `transaction.max.timeout.ms` bounds it",
            1000,
        ),
        "compression.type": word(
            "none", "`none`, `gzip`, `snappy`, `lz4` or `zstd`", "none", "gzip", "snappy", "lz4", "zstd"
        ),
        "batch.size": integer(131072, "bytes of one batch of the log", 1024),
    },
)


class Options:
    """The options of one source or sink by name: `options["minPartitions"]` is None without a value or default.

    Raises OptionError for a name that is not among `declared`, and for a value that an option cannot have. `ignored`
    are names that Spark adds by itself.
    """

    def __init__(
        self, given: Mapping[str, str], declared: SettingTable, *, ignored: frozenset[str] = frozenset()
    ) -> None:
        self._declared = declared
        names = {name.lower(): name for name in (*declared, *SECURITY)}
        self._texts: dict[str, str] = {}
        for spelling, value in given.items():
            plain = _without_prefix(spelling.lower())
            if plain in ignored:
                continue
            if plain not in names:
                hint = (
                    suggest(_without_prefix(spelling), names.values()) or f"; there are {', '.join(declared)}"
                )
                raise OptionError(f"there is no option {spelling!r}{hint}")
            name = names[plain]
            if self._texts.get(name, value) != value:
                raise OptionError(f"option {name!r} is set twice, to {value!r} and another value")
            self._texts[name] = value
        try:
            self._values = {
                name: read_setting(one, self._texts[name] if self.is_set(name) else None, where="option ")
                for name, one in declared.items()
            }
        except SettingError as failure:
            raise OptionError(str(failure)) from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def is_set(self, name: str) -> bool:
        """Whether it has a value that is not blank."""
        return bool(self._texts.get(name, "").strip())

    def security(self) -> dict[str, str]:
        """The options of connections that are encrypted or logged in. They may hold secrets."""
        return {name: self._texts[name] for name in SECURITY if name in self._texts}

    def require(self, name: str) -> str:
        """A text. Raises OptionError without one."""
        if not self._values[name]:
            raise OptionError(f"option {name!r} is not set: it has {self._declared[name].doc}")
        return str(self._values[name])


def _without_prefix(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def option_table(declared: SettingTable) -> str:
    """A table in Markdown, a row for each option, so that `docs/data-source.md` has what is declared."""
    rows = [
        f"| `{name}` | {f'`{one.default_text}`' if one.default_text else ''} | {one.doc} |"
        for name, one in declared.items()
    ]
    return "\n".join(["| option | default | meaning |", "| --- | --- | --- |", *rows])
