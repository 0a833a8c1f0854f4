"""The settings of a subscription for metrics of clients (KIP-714).

They are kept and checked whether or not brokers take such metrics (`broker.telemetry`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from odradek.foundation.errors import InvalidConfig, InvalidRequest
from odradek.foundation.limits import TOPIC_PATTERN_LENGTH_MAX
from odradek.foundation.settings.declaration import Kind, Range, Setting, SettingValue
from odradek.foundation.words import nearest_name
from odradek.metadata.image.configs import format_declared

INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
METRICS: Final = "metrics"


class WholeMatcher(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str, /) -> object: ...


_COMPILED_BYTES_MAX: Final = 1024 * 1024
# Its own errors are INVALID_REQUEST, and those of the kind of a value INVALID_CONFIG, as with Kafka.
_INTERVAL_MS_ALLOWED: Final = Range(100, 3_600_000)

CLIENT_METRICS_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        setting.key: setting
        for setting in (
            Setting(
                Kind.INT,
                300_000,
                "The time between two pushes of metrics by a client: 100 to 3600000.",
                key=INTERVAL,
            ),
            Setting(
                Kind.LIST,
                (),
                "The clients that the subscription is for, as pairs of a name and a pattern; all when empty.",
                key=MATCH,
            ),
            Setting(
                Kind.LIST,
                (),
                "Beginnings of the names of metrics, or * for all; none when empty.",
                key=METRICS,
            ),
        )
    }
)

_MATCHED: Final = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)


def validate_client_metrics_config(values: Mapping[str, str | None]) -> dict[str, str]:
    """The texts to store. Raises InvalidRequest for an unknown key or an interval out of bounds, else InvalidConfig."""
    for key in values:
        if key not in CLIENT_METRICS_SETTINGS:
            nearest = nearest_name(key, CLIENT_METRICS_SETTINGS)
            hint = "" if nearest is None else f"; did you mean {nearest}?"
            raise InvalidRequest(f"Unknown client metrics configuration: {key}{hint}")
    texts = format_declared("client metrics", CLIENT_METRICS_SETTINGS, values)
    if INTERVAL in texts:
        interval_ms: SettingValue = CLIENT_METRICS_SETTINGS[INTERVAL].parse(texts[INTERVAL])
        wrong = _INTERVAL_MS_ALLOWED.check(interval_ms)
        if wrong is not None:
            raise InvalidRequest(f"{INTERVAL}={texts[INTERVAL]}: must be {wrong}")
    if MATCH in texts:
        _check_match(texts[MATCH])
    return texts


def match_patterns(pairs: Iterable[str]) -> Iterator[tuple[str, WholeMatcher]]:
    """(name, compiled expression) of each pair. Raises InvalidConfig.

    Patterns are RE2's, as those of topics: time and memory of a check have a bound.
    """
    if not pairs:
        return
    import re2  # loaded with the first subscription that matches

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _COMPILED_BYTES_MAX
    for one in pairs:
        name, _, pattern = one.partition("=")
        if name.strip() not in _MATCHED or not pattern or "=" in pattern:
            raise InvalidConfig(
                f"Illegal client matching pattern: {one}; give NAME=PATTERN, where the name is one of "
                f"{', '.join(sorted(_MATCHED))} and the pattern has no ="
            )
        try:
            yield name.strip(), re2.compile(pattern.strip(), options)
        except re2.error:
            raise InvalidConfig(f"Illegal client matching pattern: {one} is no RE2 expression") from None


def _check_match(text: str) -> None:
    if len(text) > TOPIC_PATTERN_LENGTH_MAX:
        raise InvalidConfig(f"{MATCH} has {len(text)} characters, more than {TOPIC_PATTERN_LENGTH_MAX}")
    pairs: SettingValue = CLIENT_METRICS_SETTINGS[MATCH].parse(text)
    for _ in match_patterns(pairs):
        pass
