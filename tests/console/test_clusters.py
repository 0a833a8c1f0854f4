"""Several clusters in one console: each is asked by its name, and one that is silent holds up no other."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from odradek.console.clusters import ClusterSource
from odradek.foundation.console_limits import CONSOLE_READS_MAX
from tests.console.viewer import Viewer, make_source, run
from tests.support.broker_process import Broker, free_port
from tests.support.local_process import running
from tests.support.polling import eventually

pytestmark = pytest.mark.integration


@pytest.fixture
def silent() -> Iterator[ClusterSource]:
    """A cluster whose only broker takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield make_source(f"127.0.0.1:{listener.getsockname()[1]}", "silent", wait_ms_max=60_000)


def test_each_cluster_is_asked_by_its_name(bootstrap: str, unique: str) -> None:
    gone = f"127.0.0.1:{free_port()}"

    async def story(viewer: Viewer) -> None:
        about = await viewer.get("about")
        assert about["clusters"] == [
            {"name": "cluster", "bootstrap": bootstrap},
            {"name": "second", "bootstrap": bootstrap},
            {"name": "gone", "bootstrap": gone},
        ]
        await viewer.make_topic(unique, [b"one"])
        page = await viewer.get("records", topic=unique, cluster="second")
        assert [one["value"]["text"] for one in page["records"]] == ["one"]
        assert (await viewer.get("overview", cluster="second"))["verdict"] == "healthy"
        refusal = await viewer.get("overview", cluster="gone", status=503)
        assert gone in refusal["error"]
        for cluster in ({}, {"cluster": "third"}, {"cluster": "../second"}):
            refusal = await viewer.get("overview", status=404, **cluster)
            assert refusal["error"].endswith("this console has cluster, second, gone")

    others = [make_source(bootstrap, "second"), make_source(gone, "gone", wait_ms_max=500)]
    run(bootstrap, story, others=others)


def test_a_change_is_made_in_the_cluster_that_is_named(
    bootstrap: str, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(viewer: Viewer) -> None:
        await viewer.act("create-topic", status=404, topic=unique, partitions=1)
        await viewer.act("create-topic", status=503, cluster="gone", topic=unique, partitions=1)
        made = await viewer.act("create-topic", cluster="second", topic=unique, partitions=1)
        assert made["done"] and "--bootstrap" in made["command"]
        assert f"127.0.0.1 in cluster second did create topic {unique!r}" in caplog.text

    others = [
        make_source(bootstrap, "second"),
        make_source(f"127.0.0.1:{free_port()}", "gone", wait_ms_max=500),
    ]
    with caplog.at_level(logging.INFO, logger="odradek.console.acting"):
        run(bootstrap, story, may_change=True, others=others)


async def find_row(viewer: Viewer, number: int) -> dict[str, object]:
    found: dict[str, object] = (await viewer.get("clusters"))["clusters"][number]
    return found


async def find_known(viewer: Viewer, number: int) -> dict[str, object]:
    """A cluster's row once it was asked. The page waits a second for it, and a busy machine's broker takes longer."""
    row: dict[str, object] = await eventually(
        "it is known", lambda: find_row(viewer, number), lambda row: row["verdict"] is not None
    )
    return row


def test_a_silent_cluster_holds_up_no_other(bootstrap: str, unique: str, silent: ClusterSource) -> None:
    async def story(viewer: Viewer) -> None:
        await viewer.make_topic(unique, [b"one"])
        cluster = viewer.server.clusters[1]
        await find_known(viewer, 0)
        seen, unseen = (await viewer.get("clusters"))["clusters"]
        assert (seen["verdict"], seen["live"], seen["brokers"], seen["error"]) == ("healthy", 1, 1, None)
        assert (unseen["name"], unseen["verdict"], unseen["error"]) == ("silent", None, None)
        with ExitStack() as taken:
            # All that one cluster may read at a time takes no slot of the others.
            for _ in range(CONSOLE_READS_MAX):
                taken.enter_context(cluster.slots.reads.take())
            await viewer.get("records", topic="x", cluster="silent", status=429)
            page = await viewer.get("records", topic=unique, cluster="cluster")
            assert len(page["records"]) == 1

    run(bootstrap, story, others=[silent])


def test_a_cluster_that_stopped_is_shown_as_it_was_last(tmp_path: Path, bootstrap: str) -> None:
    async def story(viewer: Viewer) -> None:
        row = await find_known(viewer, 1)
        assert (row["verdict"], row["error"]) == ("healthy", None)
        asked_ms = row["asked_ms"]
        broker.kill()

        async def look() -> dict[str, object]:
            viewer.server.clusters[1].facts.forget()
            return await find_row(viewer, 1)

        row = await eventually("it is noticed", look, lambda row: row["error"] is not None)
        assert (row["verdict"], row["live"], row["asked_ms"]) == ("healthy", 1, asked_ms)
        assert (await viewer.get("clusters"))["clusters"][0]["error"] is None

    with running(Broker(tmp_path / "broker")) as broker:
        run(bootstrap, story, others=[make_source(broker.bootstrap, "other", wait_ms_max=1_000)])
