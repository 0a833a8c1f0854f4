"""What pages ask about one cluster, and what they change there: from the fields of a request to a document.

Facts are shared by all viewers (`shared_facts`). What reads records has a bounded number of slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from aiohttp import web

from odradek.console.administration import (
    AdministrationFacts,
    hanging_document,
    moves_document,
    quotas_document,
    rights_document,
    transactions_document,
    users_document,
)
from odradek.console.cluster_facts import GroupsFact
from odradek.console.clusters import ConsoleCluster
from odradek.console.decoders import FORMS
from odradek.console.documents import (
    RowsWanted,
    findings_document,
    group_document,
    groups_document,
    overview_document,
    settings_document,
    topic_document,
    topics_document,
)
from odradek.console.given_fields import GivenFields
from odradek.console.http.answers import answer, send_events
from odradek.console.mirrors import mirrors_document, positions_document
from odradek.console.reading import (
    Document,
    PageWanted,
    Search,
    SearchWanted,
    follow,
    read_one,
    read_page,
)
from odradek.console.shared_facts import Known, SharedFact
from odradek.foundation.console_limits import (
    CONSOLE_MATCHES_DEFAULT,
    CONSOLE_MATCHES_MAX,
    CONSOLE_NEEDLE_CHARACTERS_MAX,
    CONSOLE_RECORDS_DEFAULT,
    CONSOLE_RECORDS_MAX,
    CONSOLE_ROWS_DEFAULT,
    CONSOLE_ROWS_MAX,
    CONSOLE_WHOLE_VALUE_BYTES_MAX,
)
from odradek.foundation.errors import InvalidRequest, OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.server.http.strangers import parse_json

T = TypeVar("T")

Handle = Callable[[ConsoleCluster, web.Request], Awaitable[web.StreamResponse]]

_TOPIC_ORDERS: Final = ("name", "size", "partitions", "lag")
_GROUP_ORDERS: Final = ("name", "lag", "state")

# --- facts -----------------------------------------------------------------------------------------------------------


async def _overview(cluster: ConsoleCluster, _: web.Request) -> web.Response:
    return answer(overview_document(await cluster.facts.health.get()))


async def _findings(cluster: ConsoleCluster, _: web.Request) -> web.Response:
    return answer(findings_document(await cluster.facts.findings.get()))


async def _topics(cluster: ConsoleCluster, request: web.Request) -> web.Response:
    wanted = _rows_wanted(read_query(request), _TOPIC_ORDERS)
    known = await cluster.facts.topics.get()
    return answer(topics_document(known, await _groups_if_known(cluster), wanted))


async def _topic(cluster: ConsoleCluster, request: web.Request) -> web.Response:
    fields = read_query(request)
    name, wanted = fields.text("topic"), _rows_wanted(fields)
    fact = (await cluster.facts.topics.get()).value
    topic = fact.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {name!r}")
    offsets = (await cluster.facts.offsets.get(name)).value
    return answer(topic_document(topic, fact, await _groups_if_known(cluster), offsets, wanted))


async def _topic_settings(cluster: ConsoleCluster, request: web.Request) -> web.Response:
    return answer(
        settings_document((await cluster.facts.settings.get(read_query(request).text("topic"))).value)
    )


async def _groups(cluster: ConsoleCluster, request: web.Request) -> web.Response:
    wanted = _rows_wanted(read_query(request), _GROUP_ORDERS)
    return answer(groups_document(await cluster.facts.groups.get(), wanted))


async def _group(cluster: ConsoleCluster, request: web.Request) -> web.Response:
    fields = read_query(request)
    wanted = _rows_wanted(fields)
    return answer(group_document(await cluster.facts.group.get(fields.text("group")), wanted))


async def _hanging(cluster: ConsoleCluster, request: web.Request) -> web.Response:
    topic = read_query(request).text("topic")
    return answer(hanging_document(topic, await cluster.administration.hanging.get(topic)))


async def _groups_if_known(cluster: ConsoleCluster) -> GroupsFact | None:
    """The groups. Topics are shown without them where no broker lists any."""
    try:
        return (await cluster.facts.groups.get()).value
    except (OdradekError, OSError):
        return None


def _handle_rows(
    choose: Callable[[AdministrationFacts], SharedFact[T]], make: Callable[[Known[T], RowsWanted], Document]
) -> Handle:
    """Answers with rows of one fact."""

    async def handle(cluster: ConsoleCluster, request: web.Request) -> web.Response:
        wanted = _rows_wanted(read_query(request))
        return answer(make(await choose(cluster.administration).get(), wanted))

    return handle


# --- records ---------------------------------------------------------------------------------------------------------


async def _records(cluster: ConsoleCluster, request: web.Request) -> web.Response:
    fields = read_query(request)
    wanted = PageWanted(
        key=_partition(fields),
        count=fields.number("count", CONSOLE_RECORDS_DEFAULT, least=1, most=CONSOLE_RECORDS_MAX),
        form=fields.choice("form", FORMS),
        offset=fields.number_or_none("offset"),
        before=fields.number_or_none("before"),
        time_ms=fields.number_or_none("time"),
        is_from_start=fields.flag("start"),
    )
    with cluster.slots.reads.take():
        return answer(await read_page(cluster.client, cluster.showing, wanted))


async def _record(cluster: ConsoleCluster, request: web.Request) -> web.Response:
    fields = read_query(request)
    key, offset = _partition(fields), fields.number("offset", 0)
    with cluster.slots.reads.take():
        record = await read_one(cluster.client, key, offset)
    if record is None:
        raise UnknownTopicOrPartition(f"partition {key} has no record at offset {offset}")
    (document,) = await cluster.showing.show(
        (record,), fields.choice("form", FORMS), value_bytes_max=CONSOLE_WHOLE_VALUE_BYTES_MAX
    )
    return answer(document)


async def _tail(cluster: ConsoleCluster, request: web.Request) -> web.StreamResponse:
    fields = read_query(request)
    topic, numbers, form = fields.text("topic"), fields.numbers("partitions"), fields.choice("form", FORMS)
    with cluster.slots.tails.take():
        return await send_events(request, follow(cluster.client, cluster.showing, topic, numbers, form))


async def _search(cluster: ConsoleCluster, request: web.Request) -> web.StreamResponse:
    fields = read_query(request)
    needle = fields.text("text")
    if len(needle) > CONSOLE_NEEDLE_CHARACTERS_MAX:
        raise InvalidRequest(f"a search is for {CONSOLE_NEEDLE_CHARACTERS_MAX} characters at most")
    parts = {one.strip() for one in (fields.text_or_none("in") or "key,value").split(",")}
    wanted = SearchWanted(
        topic=fields.text("topic"),
        needle=needle.encode(),
        numbers=fields.numbers("partitions"),
        is_in_keys="key" in parts,
        is_in_values="value" in parts,
        is_in_headers="headers" in parts,
        is_exact=fields.flag("exact"),
        since_ms=fields.number_or_none("time"),
        matches_max=fields.number("matches", CONSOLE_MATCHES_DEFAULT, least=1, most=CONSOLE_MATCHES_MAX),
        form=fields.choice("form", FORMS),
    )
    with cluster.slots.searches.take():
        return await send_events(request, Search(cluster.client, cluster.showing, wanted).events())


# --- changes ---------------------------------------------------------------------------------------------------------


async def change(cluster: ConsoleCluster, request: web.Request, *, by: str) -> web.Response:
    """Make the change that the path names, or its preview. `by` names the viewer."""
    fields = await read_body(request)
    work = _act(cluster, request.match_info["name"], fields, by=by)
    # A page that closes does not stop a change half way.
    outcome = await asyncio.shield(cluster.tasks.start(work, name="change"))
    if isinstance(outcome, Exception):
        raise outcome
    return answer(outcome)


async def _act(
    cluster: ConsoleCluster, name: str, fields: GivenFields, *, by: str
) -> Document | OdradekError | OSError:
    try:
        with cluster.slots.changes.take():
            return await cluster.actions.act(name, fields, by=by)
    except (OdradekError, OSError) as failure:
        return failure


# --- fields ----------------------------------------------------------------------------------------------------------


def read_query(request: web.Request) -> GivenFields:
    """The fields of a query."""
    return GivenFields(dict(request.query))


async def read_body(request: web.Request) -> GivenFields:
    """The fields of a body of JSON. Raises InvalidRequest."""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise web.HTTPUnsupportedMediaType(reason="send the body as it is: compressed ones are not read")
    try:
        return GivenFields(parse_json(await request.read()))
    except ValueError as failure:
        raise InvalidRequest(f"the body is no JSON: {failure}") from failure


def _partition(fields: GivenFields) -> TopicPartition:
    return TopicPartition(fields.text("topic"), fields.number("partition", 0, most=2**31 - 1))


def _rows_wanted(fields: GivenFields, orders: Sequence[str] = ("",)) -> RowsWanted:
    return RowsWanted(
        first=fields.number("first", 0),
        count=fields.number("count", CONSOLE_ROWS_DEFAULT, least=1, most=CONSOLE_ROWS_MAX),
        text=fields.text_or_none("text") or "",
        order=fields.choice("order", orders),
    )


# What pages ask, by the last word of the path.
HANDLERS: Final[Mapping[str, Handle]] = {
    "overview": _overview,
    "findings": _findings,
    "topics": _topics,
    "topic": _topic,
    "settings": _topic_settings,
    "groups": _groups,
    "group": _group,
    "transactions": _handle_rows(lambda facts: facts.transactions, transactions_document),
    "hanging": _hanging,
    "moves": _handle_rows(lambda facts: facts.moves, moves_document),
    "users": _handle_rows(lambda facts: facts.users, users_document),
    "quotas": _handle_rows(lambda facts: facts.quotas, quotas_document),
    "rights": _handle_rows(lambda facts: facts.rights, rights_document),
    "mirrors": _handle_rows(lambda facts: facts.mirrors, mirrors_document),
    "carried": _handle_rows(lambda facts: facts.mirrors, positions_document),
    "records": _records,
    "record": _record,
    "tail": _tail,
    "search": _search,
}
