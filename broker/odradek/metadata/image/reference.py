"""The reference pages made from the tables of settings and metrics: `python -m odradek.metadata.image.reference
docs/reference`.

A test holds pages and tables together, so a setting or metric cannot be added without its line. It lives in
`cluster`, the lowest layer that knows all of them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from odradek.foundation.metrics import METRICS, Metric
from odradek.foundation.settings.areas.protection import LISTENER_PROMISES, NO_PROMISE, PROTECTION_SETTINGS
from odradek.foundation.settings.areas.unused import RETIRED_PREFIXES, UNUSED
from odradek.foundation.settings.areas.zookeeper import ZookeeperSettings
from odradek.foundation.settings.broker_values import AREAS
from odradek.foundation.settings.declaration import Kind, Setting
from odradek.metadata.image.client_metrics_configs import CLIENT_METRICS_SETTINGS
from odradek.metadata.image.configs import ALLOWS_DEAD_LETTERS_KEY, TOPIC_SETTINGS
from odradek.metadata.image.group_configs import GROUP_SETTINGS, broker_key_of, has_broker_key

_MADE = "<!-- Made by `make reference` from the declarations in the code; edits here are lost. -->"


_INTRODUCTION = (
    "Keys, defaults and allowed values are those of Apache Kafka 4.1. Give them in a file of `server.properties`",
    "syntax (`--config FILE`) or one by one (`--set key=value`). An unknown key is a warning that names the nearest",
    "known one; a wrong value stops the start before anything is written.",
    "",
    "*Change* says how a setting may change while the broker runs: not at all (read-only), for one broker",
    "(per-broker), or also for all (cluster-wide). Change it with `odradek configs set` or any client's",
    "IncrementalAlterConfigs.",
)


_PROTECTION = (
    "## Settings that promise protection",
    "",
    "A key of this table asks for a protection that no part of this broker gives. A start with it ends with exit",
    "code 2 and one line that names all such keys. A change of it while the broker runs is refused too, and so is",
    "a Cluster that has it in `spec.brokers.config`. Kafka's default, an empty value and the harmless value promise",
    "nothing and are accepted. The forms `listener.name.NAME.KEY` and `listener.name.NAME.MECHANISM.KEY` count as",
    "KEY.",
    "",
    "| key | asks that | harmless |",
    "| --- | --- | --- |",
)


def settings_page() -> str:
    """The text of docs/reference/settings.md."""
    return "\n".join(_settings_lines()) + "\n"


def metrics_page() -> str:
    """The text of docs/reference/metrics.md."""
    lines = [
        _MADE,
        "# Metrics",
        "",
        "Served at `/metrics` of the `--admin` address, in OpenMetrics or Prometheus' text, as the scraper asks.",
        "",
        *_metrics_table(
            metric for metric in METRICS.values() if not _is_of_mirrors(metric) and not _is_of_shares(metric)
        ),
        "",
        "## Share groups",
        "",
        "Those of share-partitions come from the broker that leads the partition; a group without members on it has",
        "none. The names follow Kafka's. `odradek_groups` has the number of share groups by state.",
        "",
        *_metrics_table(filter(_is_of_shares, METRICS.values())),
        "",
        "## Mirrors",
        "",
        "A process of `odradek mirror` serves these, and those of every process above.",
        "",
        *_metrics_table(filter(_is_of_mirrors, METRICS.values())),
    ]
    return "\n".join(lines) + "\n"


def _is_of_mirrors(metric: Metric) -> bool:
    return metric.name.startswith("odradek_mirror_")


def _is_of_shares(metric: Metric) -> bool:
    return metric.name.startswith("odradek_share_")


def _metrics_table(metrics: Iterable[Metric]) -> Iterator[str]:
    yield "| metric | kind | labels | meaning |"
    yield "| --- | --- | --- | --- |"
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.doc} |"


def pages() -> dict[str, str]:
    """Every reference page by file name."""
    return {"settings.md": settings_page(), "metrics.md": metrics_page()}


def _settings_lines() -> Iterator[str]:
    yield _MADE
    yield "# Settings"
    yield ""
    yield from _INTRODUCTION
    for area in (*AREAS, ZookeeperSettings):
        yield ""
        yield f"## {area.__name__.removesuffix('Settings')}"
        yield ""
        yield inspect.cleandoc(area.__doc__ or "")
        yield ""
        yield from _table(setting for setting in vars(area).values() if isinstance(setting, Setting))
    yield ""
    yield "## Topic settings"
    yield ""
    yield "Set per topic; a topic without its own value has the broker's."
    yield ""
    yield "| key | kind | default | allowed | broker's key | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for setting in TOPIC_SETTINGS.values():
        if not setting.internal or setting.key == ALLOWS_DEAD_LETTERS_KEY:
            broker_key = f"`{setting.synonyms[0]}`" if setting.synonyms else ""
            yield _row(setting, broker_key)
    yield ""
    yield "## Group settings"
    yield ""
    yield "Set per group; a group without its own value has the broker's."
    yield ""
    yield "| key | kind | default | allowed | broker's key | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for setting in GROUP_SETTINGS.values():
        broker_key = f"`{broker_key_of(setting.key)}`" if setting.used and has_broker_key(setting.key) else ""
        yield _row(setting, broker_key)
    yield ""
    yield from _client_metrics_lines()
    yield from _PROTECTION
    for row in PROTECTION_SETTINGS:
        key = f"{row.key}*" if row.is_family else row.key
        yield f"| `{key}` | {row.asks_for} | {f'`{row.harmless}`' if row.harmless else ''} |"
    for row in LISTENER_PROMISES:
        yield f"| `listener.name.NAME.{row.key}` | {row.asks_for} | |"
    yield ""
    yield "These promise nothing by themselves, and have no effect:"
    yield ", ".join(f"`{key}*`" if key.endswith(".") else f"`{key}`" for key in NO_PROMISE) + "."
    yield ""
    yield "## Known and not used"
    yield ""
    yield "Accepted without a warning, since a `server.properties` that served Kafka should serve here. Those that"
    yield "promise protection are accepted only with a value that promises nothing."
    yield ""
    yield from _table(UNUSED.values())
    yield ""
    yield "Keys of Kafka before 4.0 are accepted in the same way, by their beginning:"
    yield ""
    yield ", ".join(f"`{prefix}`" for prefix in RETIRED_PREFIXES) + "."


def _client_metrics_lines() -> Iterator[str]:
    yield "## Client metrics settings"
    yield ""
    yield "Set per subscription for metrics of clients. Subscriptions are kept and described. No client pushes metrics,"
    yield "as with a Kafka without a reporter for them."
    yield ""
    yield "| key | kind | default | allowed | broker's key | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for setting in CLIENT_METRICS_SETTINGS.values():
        yield _row(setting, "")
    yield ""


def _table(settings: Iterable[Setting]) -> Iterator[str]:
    yield "| key | kind | default | allowed | change | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for setting in settings:
        yield _row(setting, setting.scope.value)


def _row(setting: Setting, fifth: str) -> str:
    cells = (_key(setting), _kind(setting), _default(setting), _describe_allowed(setting), fifth, setting.doc)
    return f"| {' | '.join(cells)} |"


def _key(setting: Setting) -> str:
    return f"`{setting.key}`"


def _kind(setting: Setting) -> str:
    return "secret" if setting.kind is Kind.PASSWORD else setting.kind.name.lower()


def _default(setting: Setting) -> str:
    return "" if setting.default_text in (None, "") else f"`{setting.default_text}`"


def _describe_allowed(setting: Setting) -> str:
    return "" if setting.allowed is None else str(setting.allowed)


def main(arguments: list[str]) -> int:
    """Write the pages into the folder given. The exit code is 2 when there is not exactly one."""
    if len(arguments) != 1:
        print("usage: python -m odradek.metadata.image.reference FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
