"""The options as the table of a page, so that `docs/data-source.md` has what is declared."""

from __future__ import annotations

from collections.abc import Sequence

from odradek_pipeline.connector.options import Option


def option_table(options: Sequence[Option]) -> str:
    """A table in Markdown, a row for each option."""
    rows = [
        f"| `{one.name}` | {f'`{one.default}`' if one.default else ''} | {one.meaning} |" for one in options
    ]
    return "\n".join(["| option | default | meaning |", "| --- | --- | --- |", *rows])
