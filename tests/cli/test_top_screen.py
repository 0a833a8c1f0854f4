"""The screen of `odradek top`, driven by the library's own pilot: keys, sizes, what comes late and what fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from odradek.cli.cluster.top.rates import ClusterLook
from odradek.cli.cluster.top.screen import TopPage, TopScreen, TopTable, shorten
from odradek.client.admin.diagnosis import Diagnosis, Severity
from odradek.client.results import GroupDescription, GroupMember
from odradek.console.cluster_facts import DoctorFindings, GroupDetail, GroupPlaces
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from tests.cli.top_looks import group, look, topic
from tests.support.polling import eventually

Story = Callable[[Pilot[None], "Looks"], Awaitable[None]]
A0 = TopicPartition("a", 0)


class Looks:
    """Gives looks in turn. After the last one it waits until there is another."""

    def __init__(self, looks: Sequence[ClusterLook | Exception]) -> None:
        self.looks = list(looks)
        self.taken = 0
        self.is_under_way = False

    async def look(self) -> ClusterLook:
        assert not self.is_under_way, "one look at a time"
        self.is_under_way = True
        await asyncio.sleep(0)
        self.is_under_way = False
        await eventually("another look is given", lambda: self.taken < len(self.looks), seconds_max=600)
        found = self.looks[self.taken]
        self.taken += 1
        if isinstance(found, Exception):
            raise found
        return found

    async def find(self) -> DoctorFindings:
        return DoctorFindings([Diagnosis(Severity.WARNING, "racks", "no [rack] here", "set one")], [], {})

    async def describe(self, group_id: str) -> GroupDetail:
        if group_id != "slow":
            raise OdradekError("its coordinator is away")
        member = GroupMember("m-1", None, "app-7", "/10.0.0.7", (A0,))
        described = GroupDescription(group_id, "Stable", "classic", "consumer", "range", 1, (member,))
        return GroupDetail(described, GroupPlaces({A0: 1}, {}), {A0: 9}, {})


@asynccontextmanager
async def shown(
    looks: Looks, size: tuple[int, int] = (80, 24), every_seconds: float = 0.01
) -> AsyncIterator[tuple[TopScreen, Pilot[None]]]:
    app = TopScreen(looks, cluster="kafka-1:9092", every_seconds=every_seconds)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.shown is not None)
        yield app, pilot


async def until(pilot: Pilot[None], found: Callable[[], bool]) -> None:
    await eventually("the screen is as wanted", found)
    await pilot.pause()


def screen_text(app: TopScreen) -> str:
    """What the whole screen shows."""
    width, height = app.size
    lines = [list(" " * width) for _ in range(height)]
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        lines[y] = list(strip.text)
    return "\n".join("".join(line) for line in lines)


def names(app: TopScreen) -> list[str]:
    table = app.screen_stack[0].query_one(TopTable)
    return [table.get_row_at(number)[0].plain for number in range(table.row_count)]


def cluster(at: float = 0.0, lag: int = 4) -> ClusterLook:
    return look(
        at,
        topics=[topic("a"), topic("[bold]orders[/bold]")],
        ends={A0: round(at * 100)},
        groups=[group("fast", {A0: 9}, {"a": 1}), group("slow", {A0: 1}, {"a": lag})],
    )


def test_the_lists_are_chosen_and_no_name_is_markup() -> None:
    async def story() -> None:
        async with shown(Looks([cluster(0.0), cluster(1.0, lag=44)])) as (app, pilot):
            assert names(app) == ["1", "2"]
            await until(pilot, lambda: "lag 45" in screen_text(app) and "in 100/s" in screen_text(app))
            text = screen_text(app)
            assert "kafka-1:9092" in text and "brokers 2/2" in text
            await pilot.press("tab", "right")
            assert names(app)[0] == "a" and "[bold]orders[/bold]" in screen_text(app)
            await pilot.press("right")
            assert names(app) == ["slow", "fast"]
            await pilot.press("left", "left", "left", "left")
            await until(pilot, lambda: "no [rack] here" in screen_text(app))

    asyncio.run(story())


def test_keys_sort_reverse_and_filter() -> None:
    async def story() -> None:
        async with shown(Looks([cluster()])) as (app, pilot):
            await pilot.press("tab", "tab", "tab")
            assert names(app) == ["slow", "fast"]
            await pilot.press("r")
            assert names(app) == ["fast", "slow"]
            await pilot.press("1")
            assert names(app) == ["fast", "slow"] and "GROUP↑" in screen_text(app)
            await pilot.press("1")
            assert names(app) == ["slow", "fast"] and "GROUP↓" in screen_text(app)
            await pilot.press("s")
            assert "STATE↑" in screen_text(app)
            await pilot.press("slash", *"FAS", "enter")
            assert names(app) == ["fast"] and "/FAS" in screen_text(app)
            await pilot.press("slash", "x")
            assert "no row has this text: FASx" in screen_text(app)
            await pilot.press("escape")
            assert sorted(names(app)) == ["fast", "slow"]

    asyncio.run(story())


def test_enter_opens_all_about_a_row_and_escape_goes_back() -> None:
    async def story() -> None:
        async with shown(Looks([cluster()])) as (app, pilot):
            await pilot.press("tab", "tab", "tab", "enter")
            assert isinstance(app.screen, TopPage)
            await until(pilot, lambda: "app-7" in screen_text(app))
            assert "groups: slow" in screen_text(app)
            await pilot.press("escape", "down", "enter")
            await until(pilot, lambda: "its coordinator is away" in screen_text(app))
            await pilot.press("q", "question_mark")
            assert "the next list" in screen_text(app)
            await pilot.press("escape")
            assert len(app.screen_stack) == 1
            await pilot.press("q")
        assert app.return_code == 0

    asyncio.run(story())


def test_the_chosen_row_stays_chosen_while_looks_follow() -> None:
    async def story() -> None:
        looks = Looks([cluster()])
        async with shown(looks) as (app, pilot):
            await pilot.press("tab", "tab", "tab", "down")
            table = app.query_one(TopTable)
            assert names(app)[table.cursor_row] == "fast"
            looks.looks += [look(1.0, groups=[group("fast", lags={"a": 9}), group("slow", lags={"a": 1})])]
            await until(pilot, lambda: names(app)[0] == "fast")
            assert names(app)[table.cursor_row] == "fast"

    asyncio.run(story())


def test_a_failure_is_said_and_the_last_look_stays() -> None:
    async def story() -> None:
        looks = Looks([cluster(), OdradekError("no broker answers [here]")])
        async with shown(looks) as (app, pilot):
            await until(pilot, lambda: "no broker answers [here]; trying again" in screen_text(app))
            assert names(app) == ["1", "2"]
            looks.looks += [cluster(9.0)]
            await until(pilot, lambda: "no broker" not in screen_text(app))

    asyncio.run(story())


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (200, 50)])
def test_columns_fit_the_screen(size: tuple[int, int]) -> None:
    async def story() -> None:
        name = "warehouse-" * 20 + "eu"
        looks = Looks([look(0.0, groups=[group(name, lags={"a": 123_456_789})])])
        async with shown(looks, size=size) as (app, pilot):
            await pilot.press("tab", "tab", "tab")
            text = screen_text(app)
            assert all(len(line) <= size[0] for line in text.splitlines())
            if size[0] >= 80:
                assert "123456789" in text and "…" in text and "TOPICS" in text
            await pilot.resize_terminal(100, 30)
            await until(pilot, lambda: "123456789" in screen_text(app))
            assert len(screen_text(app).splitlines()) == 30

    asyncio.run(story())


@pytest.mark.thorough
def test_a_list_of_thousands_is_bounded() -> None:
    async def story() -> None:
        groups = [group(f"group-{number}", lags={"a": number}) for number in range(2_000)]
        async with shown(Looks([look(0.0, groups=groups)]), every_seconds=60) as (app, pilot):
            await pilot.press("tab", "tab", "tab")
            found = names(app)
            assert len(found) == 501 and found[0] == "group-1999"
            assert found[-1] == "… and 1500 more; / finds them"
            await pilot.press("slash", *"group-77", "enter")
            assert found != names(app) and names(app)[0] == "group-779"

    asyncio.run(story())


def test_the_first_look_is_waited_for() -> None:
    async def story() -> None:
        app = TopScreen(Looks([OdradekError("away")]), cluster="kafka-1:9092", every_seconds=60)
        async with app.run_test() as pilot:
            await until(pilot, lambda: "away; trying again" in screen_text(app))
            assert "looking" in str(app.query_one("#head", Static).content)
            await pilot.press("tab", "s", "r", "slash", "enter", "1")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "width", "shortened"),
    [("abcdef", 6, "abcdef"), ("abcdefgh", 6, "abc…gh"), ("abcdefgh", 5, "ab…gh"), ("abc", 2, "a…")],
)
def test_the_middle_of_a_name_is_left_out(text: str, width: int, shortened: str) -> None:
    assert shorten(text, width) == shortened
