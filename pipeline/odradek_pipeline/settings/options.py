"""The options of `format("odradek")`: their declarations, and one way to read them.

A name is the stock connector's or Kafka's where there is one. Its case does not matter. It may have `odradek.` or
`kafka.` before it, so an option of the stock connector works as it is. A misspelt name is an error.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from odradek.client.properties import SECURITY_PROPERTIES, SECURITY_PROTOCOL

_PREFIXES: Final = ("odradek.", "kafka.")


class OptionError(ValueError):
    """An option is missing, unknown, or has a value that it cannot have; the text has the remedy."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is what it is without being set; empty for none."""

    name: str
    default: str
    meaning: str


CONNECTION: Final = (
    Option("bootstrap.servers", "", "addresses of brokers, `host:port,host:port`; it has to be set"),
    Option("client.id", "odradek-spark", "the name that the brokers see in their metrics and quotas"),
    Option("request.timeout.ms", "30000", "the longest time that one request may take"),
)

# Accepted beside the options of any source or sink; docs/security.md has them.
SECURITY: Final = tuple(
    Option(name, "", "as in Kafka's clients") for name in (SECURITY_PROTOCOL, *sorted(SECURITY_PROPERTIES))
)

READING: Final = (
    *CONNECTION,
    Option("subscribe", "", "the names of topics, with commas between them"),
    Option("subscribePattern", "", "a regular expression that matches whole names of topics"),
    Option("assign", "", 'partitions as JSON: `{"orders":[0,1]}`'),
    Option(
        "startingOffsets",
        "earliest",
        'the first offsets: `earliest`, `latest` (streams), or JSON `{"orders":{"0":10,"1":-2}}`; -2 is the earliest, '
        "-1 the latest. JSON names every partition. A stream uses it at its first start only. Its default is `latest`",
    ),
    Option(
        "endingOffsets",
        "latest",
        "the ends of a batch: `latest`, or JSON as above; an end is not read itself",
    ),
    Option("startingTimestamp", "", "the first record at this time or later, in milliseconds since 1970"),
    Option("endingTimestamp", "", "the end of a batch: before the first record at this time or later"),
    Option(
        "startingOffsetsByTimestamp",
        "",
        'a time for each partition as JSON: `{"orders":{"0":1700000000000}}`',
    ),
    Option("endingOffsetsByTimestamp", "", "the same for the ends of a batch"),
    Option(
        "startingOffsetsByTimestampStrategy",
        "error",
        "for a partition with no record so late: `error`, or `latest` to start at its end",
    ),
    Option(
        "isolation.level",
        "read_uncommitted",
        "`read_committed` leaves out records of aborted and open transactions",
    ),
    Option("minPartitions", "", "at least so many tasks: large ranges of offsets are split"),
    Option("maxRecordsPerPartition", "", "at most so many offsets in one task"),
    Option("maxOffsetsPerTrigger", "", "at most so many offsets in one batch of a stream, shared by lag"),
    Option(
        "availableNow",
        "false",
        "`true`: the first batch of a stream reads all there is, and later records are left. Set it with the trigger "
        "`availableNow`, where Spark 4.0 runs one batch whatever `maxOffsetsPerTrigger` is",
    ),
    Option(
        "failOnDataLoss",
        "true",
        "`false` continues behind records that are no longer there, with a warning; `true` fails and names them",
    ),
    Option("includeHeaders", "false", "`true` adds the column `headers`"),
    Option("arrowBatchRows", "50000", "rows of one Arrow batch"),
    Option("arrowBatchBytes", "33554432", "bytes of records at which an Arrow batch is sent with fewer rows"),
    Option("max.partition.fetch.bytes", "4194304", "bytes of one fetch; a task holds two of them"),
    Option("pollTimeoutMs", "120000", "a task fails when a partition has sent nothing for so long"),
)


class Options:
    """The options of one source or sink. Raises OptionError for a name that is not among `declared`.

    `ignored` are names that Spark adds by itself.
    """

    def __init__(
        self, given: Mapping[str, str], declared: tuple[Option, ...], *, ignored: frozenset[str] = frozenset()
    ) -> None:
        self._names = [option.name for option in declared]
        self._declared = {option.name.lower(): option for option in (*declared, *SECURITY)}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            known = _without_prefix(name.lower())
            if known in ignored:
                continue
            if known not in self._declared:
                raise OptionError(self._describe_unknown(name))
            if self._values.get(known, value) != value:
                raise OptionError(
                    f"option {self._declared[known].name!r} is set twice, to {value!r} and another value"
                )
            self._values[known] = value

    def is_set(self, name: str) -> bool:
        return bool(self._values.get(name.lower(), "").strip())

    def text(self, name: str) -> str:
        """Its value without spaces around it, or its default."""
        return self._values.get(name.lower(), self._declared[name.lower()].default).strip()

    def security(self) -> dict[str, str]:
        """The options of connections that are encrypted or logged in. They may hold secrets."""
        return {one.name: self._values[one.name] for one in SECURITY if one.name in self._values}

    def require_text(self, name: str) -> str:
        """As `text`; raises OptionError when it is empty."""
        value = self.text(name)
        if not value:
            raise OptionError(f"option {name!r} is not set: it has {self._declared[name.lower()].meaning}")
        return value

    def number(self, name: str, *, low: int = 1) -> int:
        """A whole number of at least `low`. Raises OptionError."""
        value = self.text(name)
        if not (value.isascii() and value.isdigit() and int(value) >= low):
            raise OptionError(f"option {name!r} is {value!r}; it takes a whole number of at least {low}")
        return int(value)

    def number_if_set(self, name: str) -> int | None:
        """As `number`, or None without a value."""
        return self.number(name) if self.is_set(name) else None

    def flag(self, name: str) -> bool:
        """`true` or `false`. Raises OptionError."""
        return self.one_of(name, "true", "false") == "true"

    def one_of(self, name: str, *allowed: str) -> str:
        """One of these words, in any case. Raises OptionError."""
        value = self.text(name).lower()
        if value not in allowed:
            raise OptionError(f"option {name!r} is {self.text(name)!r}; it can be {' or '.join(allowed)}")
        return value

    def json(self, name: str) -> dict[str, Any]:
        """A JSON object. Raises OptionError."""
        try:
            value = json.loads(self.text(name))
        except ValueError as failure:
            raise OptionError(f"option {name!r} is not JSON: {failure}") from failure
        if not isinstance(value, dict):
            raise OptionError(f"option {name!r} has to be a JSON object with names of topics")
        return value

    def _describe_unknown(self, name: str) -> str:
        known = [option.name for option in self._declared.values()]
        near = difflib.get_close_matches(_without_prefix(name), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(self._names)}"
        return f"there is no option {name!r}{hint}"


def _without_prefix(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def option_table(options: Sequence[Option]) -> str:
    """A table in Markdown, a row for each option, so that `docs/data-source.md` has what is declared."""
    rows = [
        f"| `{one.name}` | {f'`{one.default}`' if one.default else ''} | {one.meaning} |" for one in options
    ]
    return "\n".join(["| option | default | meaning |", "| --- | --- | --- |", *rows])
