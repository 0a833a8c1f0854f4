"""Records as lines, for `consume`. `record_formats` reads lines for `produce`. A line here is a value after the fields
that options ask for; `templates` and `json_lines` have the other kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.cli.records.templates import Printer, compile_template
from odradek.cli.shared.output import has_color

if TYPE_CHECKING:
    from odradek.client.consumer.blocks import RecordBlock

NULL_ON_TERMINAL: Final = b"NULL"
_DIMMED: Final = b"\x1b[2m%b\x1b[0m"


def null_on_terminal() -> bytes:
    """The mark of a null key or value on a terminal, unlike an empty text or the text NULL."""
    return _DIMMED % NULL_ON_TERMINAL if has_color() else NULL_ON_TERMINAL


def plain_printer(
    *, keys: bool, headers: bool, offsets: bool, timestamps: bool, null: bytes = b""
) -> Printer:
    """The value of each record, after the wanted fields with a tab behind each."""
    wanted = (
        (timestamps, "{timestamp}"),
        (offsets, "{partition}:{offset}"),
        (headers, "{headers}"),
        (keys, "{key}"),
    )
    before = [field for is_wanted, field in wanted if is_wanted]
    if before:
        return compile_template("\t".join((*before, "{value}")), null=null)

    def values(block: RecordBlock) -> bytes:
        found = block.values()
        try:
            return b"\n".join((*found, b""))  # type: ignore[arg-type]
        except TypeError:  # a null
            return b"\n".join((*(null if value is None else value for value in found), b""))

    return values
