"""The User of a console, as the page says it: it logs in by its Secret, sees every page, and changes nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from helm.generate.yaml_text import read_documents
from odradek_operator.gateways.kubernetes import USERS, Json
from tests.operator.support.broker_world import in_world
from tests.operator.support.user_world import SecuredClusterBroker, UserWorld
from tests.support.broker_process import CHECKOUT
from tests.support.polling import SECONDS_MAX

pytestmark = pytest.mark.integration

PAGE = CHECKOUT / "docs" / "kubernetes.md"
PATHS = (
    *("about", "overview", "findings", "topics", "topic?topic=orders", "settings?topic=orders", "groups"),
    *("transactions", "hanging?topic=orders", "moves", "users", "quotas", "rights", "records?topic=orders"),
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredClusterBroker]:
    made = SecuredClusterBroker(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.close()


def user_of_the_page() -> Json:
    """The User that the page has for a console."""
    blocks = [block.partition("```")[0] for block in PAGE.read_text().split("```yaml\n")[1:]]
    (found,) = [
        one
        for block in blocks
        for one in read_documents(block)
        if one["kind"] == "User" and one["metadata"]["name"] == "viewer"
    ]
    return dict(found)


def ask(url: str, *, body: Json | None = None) -> tuple[int, str]:
    headers = {"X-Odradek-Console": "1", "Sec-Fetch-Site": "same-origin"}
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, headers=headers, data=data)
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


@in_world(UserWorld)
async def test_it_sees_every_page_and_changes_nothing(world: UserWorld) -> None:
    async with world.admin() as admin:
        await admin.topics.create("orders", partitions=1, replication_factor=1)
    world.make(USERS, "viewer", acls=user_of_the_page()["spec"]["acls"])
    await world.user("viewer")
    file = Path(world.broker.folder) / "client.properties"
    file.write_text(world.secret("viewer")["client.properties"])
    await asyncio.to_thread(look_at_every_page, file)


def look_at_every_page(file: Path) -> None:
    command = [
        *(sys.executable, "-m", "odradek", "console", "--port", "0", "--allow-changes"),
        *("--command-config", str(file)),
    ]
    environment = {"PYTHONPATH": str(CHECKOUT / "broker")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[2]
            for path in PATHS:
                status, text = ask(f"{url}/api/{path}")
                assert status == 200, (path, text)
            _, overview = ask(f"{url}/api/overview")
            assert [one["error"] for one in json.loads(overview)["brokers"]] == [None]
            _, topics = ask(f"{url}/api/topics")
            assert "orders" in [one["name"] for one in json.loads(topics)["rows"]]
            _, users = ask(f"{url}/api/users")
            assert "viewer" in users
            for name, body in (
                ("create-topic", {"topic": "more", "partitions": 1}),
                ("delete-topic", {"topic": "orders"}),
                ("produce", {"topic": "orders", "value": "x"}),
            ):
                status, text = ask(f"{url}/api/actions/{name}", body=body)
                assert status == 403, (name, text)
        finally:
            process.kill()
