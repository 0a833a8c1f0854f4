"""The HTTP server of the console: its pages, what they ask, and what they change.

    GET  /                       the page in which all others are shown
    GET  /assets/NAME            scripts, styles, pictures
    GET  /healthz                `ok` while the process serves, whatever the cluster does
    GET  /api/about              the cluster's address, and whether changes are allowed
    GET  /api/overview, findings, topics, topic, settings, groups, group
    GET  /api/transactions, hanging, moves, users, quotas, rights
    GET  /api/records, record    a page of a partition, and one record
    GET  /api/tail, search       events until the page closes
    POST /api/actions/NAME       a change, or its preview

Facts are shared by all viewers (`shared_facts`). What reads records has a bounded number of slots.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from aiohttp import web

from odradek.client.client import Client
from odradek.console.acting import Actions
from odradek.console.administration import (
    AdministrationFacts,
    hanging_document,
    moves_document,
    quotas_document,
    rights_document,
    transactions_document,
    users_document,
)
from odradek.console.cluster_facts import ConsoleFacts, GroupsFact
from odradek.console.decoders import FORMS, record_document
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
from odradek.console.http.answers import Assets, answer, answer_failure, refuse, send_events
from odradek.console.http.protection import API, HEALTH, BrowserGuard, Handler
from odradek.console.reading import (
    Document,
    PageWanted,
    Search,
    SearchWanted,
    ViewerSlots,
    follow,
    read_one,
    read_page,
)
from odradek.console.shared_facts import Known, SharedFact
from odradek.foundation.console_limits import (
    CONSOLE_BODY_BYTES_MAX,
    CONSOLE_CHANGES_MAX,
    CONSOLE_MATCHES_DEFAULT,
    CONSOLE_MATCHES_MAX,
    CONSOLE_NEEDLE_CHARACTERS_MAX,
    CONSOLE_READS_MAX,
    CONSOLE_RECORDS_DEFAULT,
    CONSOLE_RECORDS_MAX,
    CONSOLE_ROWS_DEFAULT,
    CONSOLE_ROWS_MAX,
    CONSOLE_SEARCHES_MAX,
    CONSOLE_TAILS_MAX,
    CONSOLE_WHOLE_VALUE_BYTES_MAX,
)
from odradek.foundation.errors import InvalidRequest, OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.version import __version__
from odradek.server.http.strangers import PlainSite, parse_json

T = TypeVar("T")

_ACTIONS: Final = f"{API}actions/"
_TOPIC_ORDERS: Final = ("name", "size", "partitions", "lag")
_GROUP_ORDERS: Final = ("name", "lag", "state")
_UNKNOWN_ADDRESS: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """How a console is served. `connection` are the words that name the cluster in a command line."""

    host: str
    port: int
    bootstrap: str
    security_protocol: str = "PLAINTEXT"
    connection: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    may_change: bool = False


class ConsoleServer:
    """Serves one console for the cluster of `client`, which need not be connected yet."""

    def __init__(self, client: Client, settings: ConsoleSettings) -> None:
        self._client = client
        self._settings = settings
        self._guard = BrowserGuard((settings.host, *settings.allowed_hosts))
        self._tasks = TaskOwner("console changes")
        self.facts = ConsoleFacts(
            client, bootstrap=settings.bootstrap, security_protocol=settings.security_protocol
        )
        self.administration = AdministrationFacts(client)
        self._actions = Actions(client, connection=settings.connection, changed=self.facts.forget)
        self.reads = ViewerSlots(CONSOLE_READS_MAX, "pages of records")
        self.searches = ViewerSlots(CONSOLE_SEARCHES_MAX, "searches")
        self.tails = ViewerSlots(CONSOLE_TAILS_MAX, "live tails")
        self.changes = ViewerSlots(CONSOLE_CHANGES_MAX, "changes")
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        application = web.Application(
            middlewares=(self._answer_safely,), client_max_size=CONSOLE_BODY_BYTES_MAX
        )
        application.on_response_prepare.append(self._guard.set_headers)
        assets, router = Assets(), application.router
        router.add_get("/", assets.first_page)
        router.add_get("/assets/{name}", assets.asset)
        router.add_get(HEALTH, _answer_health)
        for name, handler in self._handlers().items():
            router.add_get(f"{API}{name}", handler)
        router.add_post(f"{_ACTIONS}{{name}}", self._act)
        # A reading ends with its page, and a compressed body would grow to whatever it likes.
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            auto_decompress=False,
            handler_cancellation=True,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        host, port = self._settings.host, self._settings.port
        try:
            await PlainSite(self._runner, host, port).start()
        except OSError as error:
            await self.stop()
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(
                error.errno, f"the console cannot listen on {host}:{port}: {reason}; choose another --port"
            ) from error

    async def stop(self) -> None:
        """Stop listening, and end what is asked and read for viewers."""
        if self._runner is not None:
            await self._runner.cleanup()
        await self._tasks.close()
        await self.facts.close()
        await self.administration.close()

    @property
    def url(self) -> str:
        """http://HOST:PORT of the listening socket."""
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def _handlers(self) -> dict[str, Handler]:
        """What pages ask, by the last word of the path."""
        facts = self.administration
        return {
            "about": self._about,
            "overview": self._overview,
            "findings": self._findings,
            "topics": self._topics,
            "topic": self._topic,
            "settings": self._topic_settings,
            "groups": self._groups,
            "group": self._group,
            "transactions": _handle_rows(facts.transactions, transactions_document),
            "hanging": self._hanging,
            "moves": _handle_rows(facts.moves, moves_document),
            "users": _handle_rows(facts.users, users_document),
            "quotas": _handle_rows(facts.quotas, quotas_document),
            "rights": _handle_rows(facts.rights, rights_document),
            "records": self._records,
            "record": self._record,
            "tail": self._tail,
            "search": self._search,
        }

    @web.middleware
    async def _answer_safely(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._guard.refusal(request)
        if refusal is not None:
            return refuse(*refusal)
        try:
            return await handler(request)
        except web.HTTPException as failure:
            return refuse(failure.status, failure.reason)
        except (OdradekError, OSError) as failure:
            return answer_failure(failure)

    # --- facts ----------------------------------------------------------------------------------------------------

    async def _about(self, _: web.Request) -> web.Response:
        return answer(
            {
                "bootstrap": self._settings.bootstrap,
                "version": __version__,
                "may_change": self._settings.may_change,
            }
        )

    async def _overview(self, _: web.Request) -> web.Response:
        return answer(overview_document(await self.facts.health.get()))

    async def _findings(self, _: web.Request) -> web.Response:
        return answer(findings_document(await self.facts.findings.get()))

    async def _topics(self, request: web.Request) -> web.Response:
        wanted = _rows_wanted(_query(request), _TOPIC_ORDERS)
        known = await self.facts.topics.get()
        return answer(topics_document(known, await self._groups_if_known(), wanted))

    async def _topic(self, request: web.Request) -> web.Response:
        fields = _query(request)
        name, wanted = fields.text("topic"), _rows_wanted(fields)
        fact = (await self.facts.topics.get()).value
        topic = fact.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {name!r}")
        offsets = (await self.facts.offsets.get(name)).value
        return answer(topic_document(topic, fact, await self._groups_if_known(), offsets, wanted))

    async def _topic_settings(self, request: web.Request) -> web.Response:
        return answer(settings_document((await self.facts.settings.get(_query(request).text("topic"))).value))

    async def _groups(self, request: web.Request) -> web.Response:
        wanted = _rows_wanted(_query(request), _GROUP_ORDERS)
        return answer(groups_document(await self.facts.groups.get(), wanted))

    async def _group(self, request: web.Request) -> web.Response:
        fields = _query(request)
        wanted = _rows_wanted(fields)
        return answer(group_document(await self.facts.group.get(fields.text("group")), wanted))

    async def _hanging(self, request: web.Request) -> web.Response:
        topic = _query(request).text("topic")
        return answer(hanging_document(topic, await self.administration.hanging.get(topic)))

    async def _groups_if_known(self) -> GroupsFact | None:
        """The groups. Topics are shown without them where no broker lists any."""
        try:
            return (await self.facts.groups.get()).value
        except (OdradekError, OSError):
            return None

    # --- records --------------------------------------------------------------------------------------------------

    async def _records(self, request: web.Request) -> web.Response:
        fields = _query(request)
        wanted = PageWanted(
            key=_partition(fields),
            count=fields.number("count", CONSOLE_RECORDS_DEFAULT, least=1, most=CONSOLE_RECORDS_MAX),
            form=fields.choice("form", FORMS),
            offset=fields.number_or_none("offset"),
            before=fields.number_or_none("before"),
            time_ms=fields.number_or_none("time"),
            is_from_start=fields.flag("start"),
        )
        with self.reads.take():
            return answer(await read_page(self._client, wanted))

    async def _record(self, request: web.Request) -> web.Response:
        fields = _query(request)
        key, offset = _partition(fields), fields.number("offset", 0)
        with self.reads.take():
            record = await read_one(self._client, key, offset)
        if record is None:
            raise UnknownTopicOrPartition(f"partition {key} has no record at offset {offset}")
        form = fields.choice("form", FORMS)
        return answer(record_document(record, form, value_bytes_max=CONSOLE_WHOLE_VALUE_BYTES_MAX))

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        fields = _query(request)
        topic, numbers, form = (
            fields.text("topic"),
            fields.numbers("partitions"),
            fields.choice("form", FORMS),
        )
        with self.tails.take():
            return await send_events(request, follow(self._client, topic, numbers, form))

    async def _search(self, request: web.Request) -> web.StreamResponse:
        fields = _query(request)
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
        with self.searches.take():
            return await send_events(request, Search(self._client, wanted).events())

    # --- changes --------------------------------------------------------------------------------------------------

    async def _act(self, request: web.Request) -> web.Response:
        if not self._settings.may_change:
            return refuse(403, "this console only shows: it was started without --allow-changes")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            return refuse(415, "send the body as it is: compressed ones are not read")
        try:
            fields = GivenFields(parse_json(await request.read()))
        except ValueError as failure:
            raise InvalidRequest(f"the body is no JSON: {failure}") from failure
        work = self._change(request.match_info["name"], fields, by=request.remote or _UNKNOWN_ADDRESS)
        # A page that closes does not stop a change half way.
        outcome = await asyncio.shield(self._tasks.start(work, name="change"))
        if isinstance(outcome, Exception):
            raise outcome
        return answer(outcome)

    async def _change(self, name: str, fields: GivenFields, *, by: str) -> Document | OdradekError | OSError:
        try:
            with self.changes.take():
                return await self._actions.act(name, fields, by=by)
        except (OdradekError, OSError) as failure:
            return failure


async def _answer_health(_: web.Request) -> web.Response:
    return web.Response(text="ok\n", headers={"Cache-Control": "no-store"})


def _handle_rows(fact: SharedFact[T], make: Callable[[Known[T], RowsWanted], Document]) -> Handler:
    """Answers with rows of one fact."""

    async def handle(request: web.Request) -> web.Response:
        wanted = _rows_wanted(_query(request))
        return answer(make(await fact.get(), wanted))

    return handle


def _query(request: web.Request) -> GivenFields:
    return GivenFields(dict(request.query))


def _partition(fields: GivenFields) -> TopicPartition:
    return TopicPartition(fields.text("topic"), fields.number("partition", 0, most=2**31 - 1))


def _rows_wanted(fields: GivenFields, orders: Sequence[str] = ("",)) -> RowsWanted:
    return RowsWanted(
        first=fields.number("first", 0),
        count=fields.number("count", CONSOLE_ROWS_DEFAULT, least=1, most=CONSOLE_ROWS_MAX),
        text=fields.text_or_none("text") or "",
        order=fields.choice("order", orders),
    )
