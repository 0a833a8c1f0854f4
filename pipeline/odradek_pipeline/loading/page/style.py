"""The page's style. Colours are named once for light and once for dark; nothing is fetched."""

from __future__ import annotations

from typing import Final

LIGHT: Final = {
    "page": "#fcfcfb",
    "card": "#ffffff",
    "text": "#1c1d1f",
    "muted": "#5d6166",
    "line": "#dfe1e4",
    "rows": "#2f6fb3",
    "dead": "#c2571a",
    "time": "#5b5fa8",
    "lag": "#8a5a9e",
    "good": "#cfe8d6",
    "warning": "#f6dfa4",
    "bad": "#e9a7a0",
    "glyph": "#1c1d1f",
}
DARK: Final = {
    "page": "#16181b",
    "card": "#1e2125",
    "text": "#e8eaed",
    "muted": "#a2a8b0",
    "line": "#383d44",
    "rows": "#6aa5e0",
    "dead": "#e98a4f",
    "time": "#a2a6ea",
    "lag": "#c598d8",
    "good": "#24513a",
    "warning": "#6b541a",
    "bad": "#8a3730",
    "glyph": "#f2f3f5",
}

_RULES: Final = (
    ("*", "box-sizing: border-box"),
    (
        "body",
        "margin: 0 auto; padding: 24px; max-width: 1200px; background: var(--page); color: var(--text); "
        "font: 15px/1.45 system-ui, sans-serif",
    ),
    ("h1", "font-size: 22px; margin: 0 0 4px"),
    ("h2", "font-size: 17px; margin: 0 0 8px"),
    ("h3", "font-size: 14px; margin: 12px 0 4px"),
    ("p", "margin: 0 0 8px"),
    (".muted", "color: var(--muted)"),
    (".verdict", "border-radius: 8px; padding: 12px 16px; margin: 16px 0; color: var(--text)"),
    (".verdict.good", "background: var(--good)"),
    (".verdict.warning", "background: var(--warning)"),
    (".verdict.bad", "background: var(--bad)"),
    (".verdict ul", "margin: 4px 0 0; padding-left: 20px"),
    (
        ".card",
        "background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 16px; margin: 0 0 16px; "
        "overflow-x: auto",
    ),
    (
        ".plots",
        "display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 0 16px",
    ),
    ("svg", "display: block; max-width: 100%; height: auto"),
    ("svg text", "font: 11px system-ui, sans-serif; fill: var(--muted)"),
    ("svg .glyph", "font-size: 12px; fill: var(--glyph)"),
    ("svg .grid", "stroke: var(--line); stroke-width: 1"),
    ("svg .hover", "fill: transparent"),
    ("svg .rows", "fill: var(--rows)"),
    ("svg .dead", "fill: var(--dead)"),
    ("svg .time", "fill: var(--time)"),
    ("svg .lag", "fill: var(--lag)"),
    ("svg .good", "fill: var(--good)"),
    ("svg .warning", "fill: var(--warning)"),
    ("svg .bad", "fill: var(--bad)"),
    ("table", "border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums"),
    (
        "th, td",
        "text-align: left; padding: 6px 10px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; "
        "white-space: nowrap",
    ),
    (".number", "text-align: right"),
    (".ranges", "white-space: normal; min-width: 180px"),
    ("code", "font: 12px ui-monospace, monospace"),
    ("code.command", "user-select: all; white-space: nowrap; display: block"),
    (".key", "display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin: 0 5px 0 12px"),
    (".key.rows", "background: var(--rows)"),
    (".key.dead", "background: var(--dead)"),
    (".key.good", "background: var(--good)"),
    (".key.warning", "background: var(--warning)"),
    (".key.bad", "background: var(--bad)"),
)

# Below this width a run is a block of named values: twelve columns fit no phone.
NARROW_PIXELS: Final = 900
_NARROW_RULES: Final = (
    ("body", "padding: 12px"),
    ("thead", "display: none"),
    ("table, tbody, td", "display: block"),
    (
        "tr",
        "display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 6px 0; border-bottom: 1px solid var(--line)",
    ),
    ("td", "padding: 0; border: 0; white-space: normal; overflow-wrap: anywhere; min-width: 0"),
    ("td[data-name]::before", "content: attr(data-name) ' '; color: var(--muted)"),
    ("code.command", "white-space: normal"),
)


def style() -> str:
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {_name_colours(DARK)} }} }}"
    rules, narrow = _write_rules(_RULES), _write_rules(_NARROW_RULES)
    return (
        f":root {{ color-scheme: light dark; {_name_colours(LIGHT)} }}\n{dark}\n{rules}\n"
        f"@media (max-width: {NARROW_PIXELS}px) {{\n{narrow}\n}}\n"
    )


def _write_rules(rules: tuple[tuple[str, str], ...]) -> str:
    return "\n".join(f"{selector} {{ {said} }}" for selector, said in rules)


def _name_colours(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())
