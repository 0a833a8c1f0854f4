"""Elements of HTML and SVG as text. Every text and every value of an attribute is escaped here and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, /, *content: object, **attributes: object) -> Markup:
    """`<name …>content</name>`. An underscore at an attribute's end is dropped, others become dashes."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join_markup(*content)}</{name}>")


def join_markup(*content: object) -> Markup:
    """All of it, one after another; what is no markup is escaped."""
    return Markup("".join(one if isinstance(one, Markup) else escape(_text(one)) for one in content))


def moment(milliseconds: int) -> str:
    """A time as `2026-03-01 12:00:05`, in UTC."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def size(count: int | None) -> str:
    """Bytes as people read them."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
