"""Pages of others in the same browser: wrong names, cross-site requests, markup. Nothing is answered, nothing runs."""

from __future__ import annotations

import asyncio
import re

import pytest
from yarl import URL

from odradek.client.admin.topics import TopicAdmin
from odradek.console.http.answers import Assets
from odradek.console.http.protection import CHANGE_HEADER, HEADERS, host_name
from tests.console.viewer import Viewer, run, with_changes, with_console
from tests.support.stories import told_by

pytestmark = pytest.mark.integration

MARKUP = "<img src=x onerror=alert(1)>\u202e\x1b[31m'\"&amp;"


@with_console
async def test_a_host_that_is_not_the_consoles_is_refused(viewer: Viewer) -> None:
    port = viewer.server.url.rpartition(":")[2]
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "169.254.1.1"):
        for path in ("/", "/api/about", "/assets/app.js", "/nothing"):
            async with viewer.session.get(f"{viewer.server.url}{path}", headers={"Host": host}) as answer:
                assert answer.status == 421
                assert "--allow-host" in (await answer.json())["error"]
    for host in (f"localhost:{port}", "LOCALHOST", "localhost.", f"[::1]:{port}", "127.0.0.1"):
        async with viewer.session.get(f"{viewer.server.url}/", headers={"Host": host}) as answer:
            assert answer.status == 200


@with_console
async def test_a_probe_is_answered_under_any_name_and_learns_nothing(viewer: Viewer) -> None:
    for host in ("10.244.0.7:8088", "evil.example", "localhost"):
        headers = {"Host": host, "Sec-Fetch-Site": "cross-site"}
        async with viewer.session.get(f"{viewer.server.url}/healthz", headers=headers) as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        for path in ("/healthz/", "/healthz/../api/about", "//healthz", "/HEALTHZ"):
            url = URL(f"{viewer.server.url}{path}", encoded=True)
            async with viewer.session.get(url, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 421
        async with viewer.session.post(f"{viewer.server.url}/healthz", headers=headers) as answer:
            assert answer.status in (403, 421)


@with_console
async def test_a_host_that_is_no_name_is_refused(viewer: Viewer) -> None:
    port = int(viewer.server.url.rpartition(":")[2])
    for head in ("Host: a b", "Host: <script>", "Host: localhost/x", "Host: u@localhost", "Host:", "X: y"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /api/about HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode())
        status, _, rest = (await reader.read()).partition(b"\r\n")
        assert b" 400 " in status, head
        assert b"may_change" not in rest
        writer.close()


@told_by(run, asks=("bootstrap",), allowed_hosts=("console.example", "FE80::1"))
async def test_names_that_are_allowed_are_answered(viewer: Viewer) -> None:
    for host in ("console.example", "Console.Example:8088", "[fe80::1]:8088"):
        async with viewer.session.get(f"{viewer.server.url}/api/about", headers={"Host": host}) as answer:
            assert answer.status == 200


@with_console
async def test_pages_of_other_sites_are_answered_nothing(viewer: Viewer) -> None:
    for site in ("cross-site", "same-site", "whatever"):
        for path in ("about", "overview", "tail?topic=t", "search?topic=t&text=x"):
            headers = {"Sec-Fetch-Site": site}
            async with viewer.session.get(f"{viewer.server.url}/api/{path}", headers=headers) as answer:
                assert answer.status == 403
        async with viewer.session.get(viewer.server.url, headers={"Sec-Fetch-Site": site}) as answer:
            assert answer.status == 200, "a link from elsewhere may open the first page"
    for site in ("same-origin", "none"):
        headers = {"Sec-Fetch-Site": site}
        async with viewer.session.get(f"{viewer.server.url}/api/about", headers=headers) as answer:
            assert answer.status == 200


@with_changes
async def test_a_change_from_elsewhere_is_refused(viewer: Viewer, unique: str) -> None:
    url, own = f"{viewer.server.url}/api/actions/create-topic", {CHANGE_HEADER: "1"}
    port = url.split(":")[2].split("/")[0]
    refused = [
        {},
        own,
        {"Origin": viewer.server.url},
        {"Sec-Fetch-Site": "same-origin"},
        {**own, "Sec-Fetch-Site": "cross-site"},
        {**own, "Sec-Fetch-Site": "same-site", "Origin": viewer.server.url},
        {**own, "Sec-Fetch-Site": "none"},
        {**own, "Origin": "http://evil.example"},
        {**own, "Origin": "null"},
        {**own, "Origin": f"http://localhost:{port}"},
        {**own, "Origin": "http://127.0.0.1:1"},
        {**own, "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    ]
    for headers in refused:
        async with viewer.session.post(url, json={"topic": unique}, headers=headers) as answer:
            assert answer.status == 403, headers
    form = {"topic": unique}
    async with viewer.session.post(url, data=form, headers={"Origin": viewer.server.url}) as answer:
        assert answer.status == 403
    assert unique not in {topic.name for topic in await TopicAdmin(viewer.client).list()}
    async with viewer.session.post(
        url, json={"topic": unique}, headers={**own, "Origin": viewer.server.url}
    ) as answer:
        assert answer.status == 200


@with_console
async def test_each_answer_forbids_what_is_not_the_consoles(viewer: Viewer) -> None:
    for path in ("/", "/assets/app.js", "/assets/none", "/api/about", "/api/topic", "/favicon.ico"):
        async with viewer.session.get(f"{viewer.server.url}{path}") as answer:
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path
            assert "Set-Cookie" not in answer.headers
    async with viewer.session.get(f"{viewer.server.url}/", headers={"Host": "evil.example"}) as answer:
        assert answer.headers["X-Frame-Options"] == "DENY"


@with_console
async def test_names_of_files_are_no_paths(viewer: Viewer) -> None:
    for name in ("..%2f__init__.py", "%2e%2e%2fdecoders.py", "%2e%2e", "app.js%00", "%2fetc%2fpasswd"):
        address = URL(f"{viewer.server.url}/assets/{name}", encoded=True)
        async with viewer.session.get(address) as answer:
            assert answer.status == 404, name


@with_console
async def test_names_and_records_with_markup_are_data(viewer: Viewer, unique: str) -> None:
    value = f"<script>alert(1)</script>{MARKUP}".encode()
    await viewer.make_topic(unique)
    await viewer.produce(unique, value, key=MARKUP.encode(), headers=[(MARKUP, MARKUP.encode())])
    group = f"{MARKUP}{unique}"
    await viewer.commit(group, unique, 0)
    (row,) = (await viewer.get("topics", text=unique))["rows"]
    assert [one["group"] for one in row["groups"]] == [group]
    assert (await viewer.get("group", group=group))["group"] == group
    (record,) = (await viewer.get("records", topic=unique, form="text"))["records"]
    assert record["value"]["text"] == value.decode()
    assert record["headers"][0]["name"] == MARKUP
    (unseen,) = (await viewer.get("records", topic=unique))["records"]
    assert unseen["value"]["form"] == "hex", "an escape sequence is no text"
    for name in ("<script>", "../../etc/passwd", "a\x00b", "x" * 5000):
        for path in ("topic", "settings", "records"):
            assert (await viewer.get(path, topic=name, status=(400, 404)))["error"]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost.:8088", "localhost"),
        ("[::1]:80", "[::1]"),
        ("127.0.0.1:8088", "127.0.0.1"),
        ("", None),
        ("localhost:", None),
        ("localhost:8088:1", None),
        ("a@localhost", None),
        ("localhost\n", None),
        ("[::1", None),
    ],
)
def test_the_name_in_a_host_header(header: str, name: str | None) -> None:
    assert host_name(header) == name


def test_the_files_have_no_code_that_makes_markup_and_nothing_of_others() -> None:
    files = {name: data.decode() for name, data in Assets()._files.items()}
    assert {"index.html", "app.js", "style.css", "icon.svg"} <= files.keys()
    makes_markup = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|\bstyle=|\.cookie\b"
    )
    for name, text in files.items():
        assert not makes_markup.search(text), name
        others = [one for one in re.findall(r"https?://[^\s\"')]+", text) if "www.w3.org" not in one]
        assert others == [], name
    named = set(re.findall(r"/assets/([\w.]+)", files["index.html"]))
    imported = {one for text in files.values() for one in re.findall(r'from "\./([\w.]+)"', text)}
    assert named | imported | {"index.html"} == files.keys()
