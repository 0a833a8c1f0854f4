"""Records as lines: what `consume` prints. What `produce` reads is `record_formats`'s.

Here are the lines of a value with what options ask for before it; `templates` and `json_lines` have the other kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.cli.output import has_color
from odradek.cli.templates import Printer, compile_template

if TYPE_CHECKING:
    from odradek.client.consumer.blocks import RecordBlock

NULL_ON_TERMINAL: Final = b"NULL"
_DIMMED: Final = b"\x1b[2m%b\x1b[0m"


def null_on_terminal() -> bytes:
    """How a person sees that a key or value is null, and not empty or the text NULL."""
    return _DIMMED % NULL_ON_TERMINAL if has_color() else NULL_ON_TERMINAL


def plain_printer(
    *, keys: bool, headers: bool, offsets: bool, timestamps: bool, null: bytes = b""
) -> Printer:
    """The value of each record, with tabs after what is wanted before it."""
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
