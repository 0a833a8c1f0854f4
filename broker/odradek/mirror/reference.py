"""Writes docs/reference/mirror.md from the declarations of `settings`; a test compares the two.

Run `python -m odradek.mirror.reference > docs/reference/mirror.md` after a change to a setting.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.foundation.settings.fields import settings_of
from odradek.mirror.settings import FlowSettings, MirrorSettings

_INTRODUCTION = (
    "<!-- Made by `make reference` from the declarations in the code; edits here are lost. -->",
    "# Settings of a mirror",
    "",
    "`odradek mirror --config FILE` reads a property file of MirrorMaker 2. [mirroring.md](../mirroring.md) has an",
    "example. `--set KEY=VALUE` goes before the file.",
    "",
    "| key | means |",
    "| --- | --- |",
    "| `clusters` | The aliases of all clusters, with commas between them. |",
    "| `ALIAS.bootstrap.servers` | Brokers of a cluster. |",
    "| `ALIAS.KEY` | Any property of Kafka's clients for that cluster. Without `ALIAS.` it is for all. |",
)


def reference() -> str:
    """The text of docs/reference/mirror.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from _INTRODUCTION
    yield from _section("Flows", "A key may stand behind `SOURCE->TARGET.`, for one flow.", FlowSettings)
    yield from _section("The process", "These are for all flows.", MirrorSettings)


def _section(title: str, sentence: str, settings: type) -> Iterator[str]:
    yield from ("", f"## {title}", "", sentence, "", "| key | default | means |", "| --- | --- | --- |")
    for one in settings_of(settings).values():
        default = f"`{one.default_text}`" if one.default_text else ""
        yield f"| `{one.key}` | {default} | {one.doc} |"


if __name__ == "__main__":
    print(reference(), end="")
