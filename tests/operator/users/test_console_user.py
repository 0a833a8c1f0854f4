"""Users and a console. That of the page logs in by its Secret, sees every page, and changes nothing.

With `logins` a viewer logs in by the password in its User's Secret.
"""

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
from odradek_operator.desired.client_properties import client_properties, properties_file
from odradek_operator.gateways.kubernetes import USERS, Json
from tests.operator.support.broker_world import in_world
from tests.operator.support.console_pod import PASSWORDS, desired, running_console
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


def ask(
    url: str, *, body: Json | None = None, opener: urllib.request.OpenerDirector | None = None
) -> tuple[int, str]:
    headers = {"X-Odradek-Console": "1", "Sec-Fetch-Site": "same-origin"}
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, headers=headers, data=data)
        opened = urllib.request.build_opener() if opener is None else opener
        with opened.open(request, timeout=SECONDS_MAX) as answer:
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


@in_world(UserWorld)
async def test_a_viewer_logs_in_by_the_password_of_a_user(world: UserWorld) -> None:
    world.make(USERS, "guest", acls=user_of_the_page()["spec"]["acls"])
    await world.user("guest")
    # As the ConfigMap for clients of the Cluster has it: nothing that a client logs in with.
    binding = client_properties(
        world.broker.bootstraps["INTERNAL"], "SASL_SSL", authority=world.broker.signing.pem
    )
    mounted = {"clusters/events/client.properties": properties_file(binding)}
    folder = Path(world.broker.folder) / "console"
    folder.mkdir()
    await asyncio.to_thread(log_in_and_look, folder, mounted, world.secret("guest")["password"])


def log_in_and_look(folder: Path, mounted: dict[str, str], password: str) -> None:
    manifests = desired({"logins": {}}, internalListener=PASSWORDS)
    with running_console(folder, manifests, mounted) as url:
        assert ask(f"{url}/api/topics")[0] == 401
        login = {"cluster": "events", "user": "guest"}
        status, text = ask(f"{url}/api/login", body={**login, "password": "wrong"})
        assert status == 401, text
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        status, text = ask(f"{url}/api/login", body={**login, "password": password}, opener=opener)
        assert status == 200, text
        status, text = ask(f"{url}/api/users", opener=opener)
        assert status == 200 and "guest" in text
        assert ask(f"{url}/api/topics")[0] == 401, "the login is of one browser"
