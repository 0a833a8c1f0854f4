"""The screen of `odradek top`, by Textual: lists that are drawn again after each look, and pages over them.

It knows no cluster: it shows what a `Looking` finds. No name is read as markup. The module needs the extra `top`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, Literal

from rich.cells import cell_len
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Input, Static

from odradek.cli.cluster.top.details import describe_members, describe_row
from odradek.cli.cluster.top.lists import (
    BAD,
    WARNING,
    Form,
    TopList,
    TopRow,
    choose_rows,
    first_order,
    is_number,
    list_all,
)
from odradek.cli.cluster.top.looks import Looking
from odradek.cli.cluster.top.printing import describe_time, format_cell, show_marks, summarize
from odradek.cli.cluster.top.rates import ClusterLook, Comparison, compare
from odradek.console.cluster_facts import DoctorFindings
from odradek.foundation.errors import OdradekError
from odradek.foundation.top_limits import TOP_FINDINGS_SECONDS, TOP_REST_FACTOR, TOP_ROWS_MAX

_STYLES: Final = {BAD: "bold red", WARNING: "yellow"}
# Columns of a cell beside its text, and the least that a name is shortened to.
_PADDING: Final = 2
_NAME_CHARACTERS_MIN: Final = 20
_KEYS: Final = " q quit  tab list  s sort  r reverse  / filter  enter details  ? help"
_HELP: Final = (
    "q, Ctrl-C        end",
    "Tab, right       the next list",
    "Shift-Tab, left  the list before",
    "up, down         another row; PgUp and PgDn for a page of them",
    "Shift-arrows     columns beyond the side of a narrow screen",
    "1 to 9           sort by this column",
    "s                sort by the next column",
    "r                turn the order around",
    "/                filter by a text in names and words; Enter keeps it",
    "Esc              no filter; back from a page",
    "Enter            all about the row",
    "?                these keys",
    "",
    "Rates lie between the last two looks. Records out are what groups have",
    "committed, and what queues are done with. Bytes in are those by which",
    "logs grow on disk; with --admin they are what brokers count, in and out.",
    "BEHIND are replicas that are not in sync. LAG/S above 0 grows.",
)


class TopPage(ModalScreen[None]):
    """A page of text over the lists: help, or all about a row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "dismiss", "Back"),
    ]
    CSS = """
    TopPage { align: center middle; }
    TopPage > VerticalScroll { width: 100%; height: 100%; border: round $primary; padding: 0 1; }
    TopPage Static { width: auto; }
    """

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title = show_marks(title)
        self._lines = [show_marks(line) for line in lines]

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = Text(self._title)
            page.border_subtitle = "Esc goes back"
            yield Static(id="lines")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self._show()

    def _show(self) -> None:
        self.query_one("#lines", Static).update(Text("\n".join(self._lines)))

    def add_lines(self, lines: Iterable[str]) -> None:
        """Show more below. What comes before the page is drawn is shown with it."""
        self._lines += map(show_marks, lines)
        if self.is_mounted:
            self._show()


class TopTable(DataTable[Text]):
    """The rows of the list that is shown. Arrows to the sides choose another list: its columns fit the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,tab", "app.switch_list(1)", "Next list", show=False),
        Binding("left,shift+tab", "app.switch_list(-1)", "List before", show=False),
        Binding("shift+right", "scroll_right", "More columns", show=False),
        Binding("shift+left", "scroll_left", "Fewer columns", show=False),
        Binding("q", "app.quit", "Quit", show=False),
        Binding("s", "app.sort_next", "Sort", show=False),
        Binding("r", "app.reverse", "Reverse", show=False),
        Binding("escape", "app.clear_filter", "No filter", show=False),
        Binding("question_mark", "app.help", "Help", show=False),
        *(Binding(str(number), f"app.sort({number})", "Sort", show=False) for number in range(1, 10)),
    ]


class TopFilter(Input):
    """The line for a filter, below the rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.clear_filter", "No filter", show=False),
        Binding("tab,down", "app.keep_filter", "Keep", show=False),
    ]


class TopScreen(App[None]):
    """The lists of one cluster. One look at a time: the next begins a pause after the last one has ended."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        # Before the keys after it are sent to the rows: they are the text, however fast they follow.
        Binding("slash", "filter", "Filter", show=False, priority=True),
    ]
    CSS = """
    Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    #notice { text-wrap: wrap; max-height: 3; }
    #head, #keys { background: $panel; }
    #notice { color: $warning; }
    TopTable { height: 1fr; }
    TopFilter { height: 1; border: none; padding: 0; display: none; }
    """

    def __init__(self, looking: Looking, *, cluster: str, every_seconds: float) -> None:
        super().__init__()
        self._looking = looking
        self._cluster = cluster
        self._every_seconds = every_seconds
        self._last: ClusterLook | None = None
        self._findings: DoctorFindings | None = None
        self._failure = ""
        self._at = 0
        self._wanted: dict[str, str] = {}
        self._orders: dict[str, tuple[str | None, bool]] = {}
        self._rows: list[TopRow] = []
        self._drawn = ""
        self.shown: Comparison | None = None

    def compose(self) -> ComposeResult:
        yield Static(f"{self._cluster}: looking …", id="head", markup=False)
        yield Static("", id="notice", markup=False)
        yield Static("", id="lists")
        yield TopTable(cursor_type="row", zebra_stripes=False, cell_padding=1)
        yield TopFilter(
            placeholder="a part of a name; Enter keeps it, Esc clears it", compact=True, select_on_focus=False
        )
        yield Static(_KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(TopTable).focus()
        self.run_worker(self._keep_looking(), name="looks")
        self.run_worker(self._keep_finding(), name="findings")

    # --- looks --------------------------------------------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        while True:
            started = asyncio.get_running_loop().time()
            try:
                look = await self._looking.look()
            except (OdradekError, OSError) as failure:
                self._failure = f"{failure}; trying again"
            else:
                self._failure = "; ".join(f"{what}: {why}" for what, why in look.unasked.items())
                self.shown = compare(self._last, look, self._findings)
                self._last = look
            self._draw()
            took = asyncio.get_running_loop().time() - started
            await asyncio.sleep(max(self._every_seconds - took, TOP_REST_FACTOR * took))

    async def _keep_finding(self) -> None:
        while True:
            try:
                self._findings = await self._looking.find()
            except (OdradekError, OSError):
                self._findings = None  # a look says why no broker answers
            if self.shown is not None:
                self.shown = self.shown.with_findings(self._findings)
                self._draw()
            await asyncio.sleep(TOP_FINDINGS_SECONDS)

    # --- drawing ------------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if not self.is_running or not self.screen_stack:
            return
        main = self.screen_stack[0]
        notice = main.query_one("#notice", Static)
        notice.update(Text(show_marks(self._failure)))
        notice.display = bool(self._failure)
        shown = self.shown
        if shown is None:
            return
        state, *lines = summarize(shown)
        head = "\n".join([f"{describe_time(shown.look.asked_ms)}  {self._cluster}  {state}", *lines])
        main.query_one("#head", Static).update(Text(head))
        lists = list_all(shown)
        main.query_one("#lists", Static).update(self._name_lists(lists))
        self._draw_rows(main.query_one(TopTable), lists[self._at])
        wanted = self._wanted.get(lists[self._at].name)
        keys = f" /{show_marks(wanted)}   Esc shows all rows" if wanted else _KEYS
        main.query_one("#keys", Static).update(Text(keys))

    def _name_lists(self, lists: Sequence[TopList]) -> Text:
        line = Text()
        for number, one in enumerate(lists):
            marks = {row.mark for row in one.rows}
            style = "red" if BAD in marks else ("yellow" if WARNING in marks else "")
            chosen = "reverse" if number == self._at else ""
            line.append(f" {one.name} {len(one.rows)} ", style=f"{style} {chosen}".strip())
            line.append(" ")
        return line

    def _order_of(self, found: TopList) -> tuple[str | None, bool]:
        return self._orders.get(found.name, first_order(found))

    def _draw_rows(self, table: TopTable, found: TopList) -> None:
        order, is_descending = self._order_of(found)
        chosen = choose_rows(
            found, text=self._wanted.get(found.name, ""), order=order, is_descending=is_descending
        )
        at = table.cursor_row if self._rows else 0
        key = self._rows[at].key if self._drawn == found.name and at < len(self._rows) else None
        scrolled = table.scroll_y
        self._rows = chosen[:TOP_ROWS_MAX]
        cells = [
            [format_cell(value, column.form) for value, column in zip(row.values, found.columns, strict=True)]
            for row in self._rows
        ]
        _shorten_names(found, cells, table.size.width or self.size.width)
        left = len(chosen) - len(self._rows)
        words = f"… and {left} more; / finds them" if left else "" if chosen else self._say_none(found)
        table.clear(columns=True)
        for number, column in enumerate(found.columns):
            arrow = ("↓" if is_descending else "↑") if column.name == order else ""
            title = column.title + arrow
            # Measured here: the library measures when it is idle, which may be after the next look.
            width = max(
                [len(title), *(cell_len(row[number]) for row in cells), len(words) if number == 0 else 0]
            )
            table.add_column(Text(title, justify=_side(column.form)), width=width)
        for row, texts in zip(self._rows, cells, strict=True):
            style = _STYLES.get(row.mark, "")
            table.add_row(
                *(
                    Text(text, style=style if number == 0 else "", justify=_side(column.form))
                    for number, (text, column) in enumerate(zip(texts, found.columns, strict=True))
                )
            )
        if words:
            table.add_row(Text(words, style="dim"))
        is_same_list = self._drawn == found.name
        self._drawn = found.name
        keys = [row.key for row in self._rows]
        table.move_cursor(row=keys.index(key) if key in keys else 0, scroll=False)
        if is_same_list:
            table.scroll_to(y=scrolled, animate=False)

    def _say_none(self, found: TopList) -> str:
        return f"no row has this text: {self._wanted[found.name]}" if found.rows else found.empty

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _current(self) -> TopList | None:
        return None if self.shown is None else list_all(self.shown)[self._at]

    def action_switch_list(self, step: int) -> None:
        """The list that many places further."""
        if self.shown is not None:
            self._at = (self._at + step) % len(list_all(self.shown))
            self._draw()

    def action_sort(self, number: int) -> None:
        """Sort by this column, counted from 1; the other way round where it sorts already."""
        found = self._current()
        if found is None or number > len(found.columns):
            return
        name, (order, is_descending) = found.columns[number - 1].name, self._order_of(found)
        turned = not is_descending if name == order else is_number(found, name)
        self._orders[found.name] = (name, turned)
        self._draw()

    def action_sort_next(self) -> None:
        """Sort by the column after the one that sorts."""
        found = self._current()
        if found is not None:
            names = [column.name for column in found.columns]
            order, _ = self._order_of(found)
            self.action_sort((names.index(order) + 1) % len(names) + 1 if order in names else 1)

    def action_reverse(self) -> None:
        """Turn the order around."""
        found = self._current()
        if found is not None:
            order, is_descending = self._order_of(found)
            name = order or found.columns[0].name
            self._orders[found.name] = (name, not is_descending if order else is_number(found, name))
            self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A filter is typed over the rows alone. Elsewhere its key is a letter, or nothing."""
        if action == "filter":
            return len(self.screen_stack) == 1 and not self.query_one(TopFilter).has_focus
        return True

    def action_filter(self) -> None:
        """Let a text be typed."""
        found = self._current()
        if found is not None:
            line = self.query_one(TopFilter)
            line.value = self._wanted.get(found.name, "")
            line.cursor_position = len(line.value)
            line.display = True
            self.screen.set_focus(line)

    def action_clear_filter(self) -> None:
        """Show all rows again."""
        found = self._current()
        if found is not None:
            self._wanted.pop(found.name, None)
            self.action_keep_filter()

    def action_keep_filter(self) -> None:
        """Go back to the rows."""
        self.query_one(TopFilter).display = False
        self.screen.set_focus(self.query_one(TopTable))
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        found = self._current()
        if found is not None and event.input.display:
            self._wanted[found.name] = event.value.strip()
            self._draw()

    def on_input_submitted(self) -> None:
        self.action_keep_filter()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        self.action_sort(event.column_index + 1)

    def action_help(self) -> None:
        """The keys, and what the columns mean."""
        self.push_screen(TopPage("odradek top", _HELP))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        found, number = self._current(), event.cursor_row
        if found is None or self.shown is None or number >= len(self._rows):
            return
        row = self._rows[number]
        page = TopPage(f"{found.name}: {row.key}", describe_row(self.shown, found, row))
        self.push_screen(page)
        if found.name in ("groups", "queues"):
            self.run_worker(self._add_members(page, row.key), name="members")

    async def _add_members(self, page: TopPage, group_id: str) -> None:
        try:
            lines = describe_members(await self._looking.describe(group_id))
        except (OdradekError, OSError) as failure:
            lines = ["", f"its members are not known: {failure}"]
        page.add_lines(lines)


def _side(form: Form) -> Literal["left", "right"]:
    return "left" if form in (Form.NAME, Form.TEXT) else "right"


def _shorten_names(found: TopList, cells: Sequence[list[str]], width: int) -> None:
    """Shorten names to what the other columns leave of a width. One title has an arrow more."""
    taken = 1
    for number, column in enumerate(found.columns):
        widest = max([len(column.title), *(cell_len(row[number]) for row in cells)])
        taken += _PADDING + (0 if column.form is Form.NAME else widest)
    left = max(width - taken, _NAME_CHARACTERS_MIN)
    for number, column in enumerate(found.columns):
        if column.form is Form.NAME:
            for row in cells:
                row[number] = shorten(row[number], left)


def shorten(text: str, width: int) -> str:
    """The text within a width: its middle is left out, since names differ at both ends."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :] if end else ''}"


async def run_screen(looking: Looking, *, cluster: str, every_seconds: float) -> None:
    """Show the screen until a key ends it. Raises CancelledError after a signal, once the terminal is as before."""
    await TopScreen(looking, cluster=cluster, every_seconds=every_seconds).run_async()
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
