"""What a viewer may change where `--allow-changes` is given.

A viewer produces records, makes and deletes topics, and changes their settings. Offsets of a group are reset and
restored, and a topic is removed from a group.

Each action has the command line that does the same, and a preview that changes nothing. The log has the viewer's
address. Values of records are left out there: they may be secret, and large.
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.group_resets import NUMBER_KINDS, PLAIN_KINDS, Reset, find_reset_offsets
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.client.results import AlterOperation, CommittedOffset, ConfigChange, ResourceType
from odradek.console.given_fields import GivenFields
from odradek.foundation.console_limits import CONSOLE_REQUEST_MS_MAX
from odradek.foundation.errors import GroupIdNotFound, InvalidRequest, NonEmptyGroup, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.words import count
from odradek.mirror.settings import GROUP_PREFIX

logger = logging.getLogger(__name__)

Document = dict[str, object]
# In `odradek groups reset-offsets`, by kind of destination.
_RESET_OPTIONS: Final = {
    "earliest": "--to-earliest",
    "latest": "--to-latest",
    "current": "--to-current",
    "offset": "--to-offset",
    "time": "--to-datetime",
    "shift": "--shift-by",
}


@dataclass(frozen=True, slots=True)
class Action:
    """One change, checked and not done. `command` does the same at a terminal; `summary` is for the log."""

    command: str
    summary: str
    preview: Document
    carry_out: Callable[[], Awaitable[Document]]


Prepare = Callable[[GivenFields], Awaitable[Action]]


class Actions:
    """The actions by name. `connection` are the words that name the cluster in a command line."""

    def __init__(self, client: Client, *, connection: Sequence[str], changed: Callable[[], None]) -> None:
        """`changed` is called after each change."""
        self._client = client
        self._connection = connection
        self._changed = changed
        self.by_name: Mapping[str, Prepare] = {
            "produce": self._prepare_record,
            "create-topic": self._prepare_topic,
            "delete-topic": self._prepare_deletion,
            "change-settings": self._prepare_settings,
            "reset-offsets": self._prepare_reset,
            "restore-offsets": self._prepare_restoring,
            "forget-topic": self._prepare_forgetting,
        }

    async def act(self, name: str, fields: GivenFields, *, by: str) -> Document:
        """Do what the fields ask for, or only show it with `"preview": true`. `by` is the viewer's address.

        Raises InvalidRequest for fields that cannot be, and what the cluster refuses.
        """
        prepare = self.by_name.get(name)
        if prepare is None:
            raise InvalidRequest(f"there is no action {name!r}; there are {', '.join(self.by_name)}")
        is_preview = fields.flag("preview")
        action = await prepare(fields)
        fields.refuse_others()
        if is_preview:
            return {"command": action.command, "done": False, **action.preview}
        try:
            result = await action.carry_out()
        except OdradekError as failure:
            logger.warning("%s could not %s: %s", by, action.summary, failure)
            raise
        finally:
            self._changed()
        logger.info("%s did %s", by, action.summary)
        return {"command": action.command, "done": True, **action.preview, **result}

    def _command(self, verb: str, name: str, *options: str) -> str:
        """The command line. A name that begins with a dash comes last, where it is no option."""
        words = (name, *options, *self._connection)
        if name.startswith("-"):
            words = (*options, *self._connection, "--", name)
        return shlex.join(("odradek", *verb.split(), *words))

    # --- records --------------------------------------------------------------------------------------------------

    async def _prepare_record(self, fields: GivenFields) -> Action:
        topic, partition = fields.text("topic"), fields.number_or_none("partition")
        key, value = fields.text_or_none("key"), fields.text_or_none("value")
        headers = fields.pairs("headers")
        (await self._client.topics([topic])).partitions(topic, None if partition is None else [partition])
        line: Document = {"key": key, "value": value, "headers": [list(pair) for pair in headers]}
        shown = json.dumps({name: one for name, one in line.items() if one}, ensure_ascii=False)
        options = () if partition is None else ("--partition", str(partition))

        async def carry_out() -> Document:
            async with Producer(
                self._client, linger_ms=0, delivery_timeout_ms=CONSOLE_REQUEST_MS_MAX
            ) as producer:
                written = await producer.send_and_wait(
                    topic,
                    None if value is None else value.encode(),
                    key=None if key is None else key.encode(),
                    headers=tuple((name, text.encode()) for name, text in headers),
                    partition=partition,
                )
            return {"partition": written.partition, "offset": written.offset}

        size = len((value or "").encode())
        return Action(
            f"printf '%s\\n' {shlex.quote(shown)} | {self._command('produce', topic, '--json', *options)}",
            f"produce {count(size, 'byte')} to {topic!r}",
            {},
            carry_out,
        )

    # --- topics ---------------------------------------------------------------------------------------------------

    async def _prepare_topic(self, fields: GivenFields) -> Action:
        name = fields.text("topic")
        partitions, copies = fields.number_or_none("partitions"), fields.number_or_none("copies")
        configs = fields.texts_by_name("settings")
        words: list[str] = []
        words += [] if partitions is None else ["--partitions", str(partitions)]
        words += [] if copies is None else ["--replication-factor", str(copies)]
        for key, text in configs.items():
            words += ["--config", f"{key}={text}"]

        async def create(validate_only: bool) -> Document:
            made = await TopicAdmin(self._client).create(
                name,
                partitions=-1 if partitions is None else partitions,
                replication_factor=-1 if copies is None else copies,
                configs=configs,
                validate_only=validate_only,
            )
            return {
                "partitions": made.partitions,
                "copies": made.replication_factor,
                "warning": made.warning,
            }

        # A preview that the cluster would refuse is refused.
        preview = await create(validate_only=True)
        return Action(
            self._command("topics create", name, *words),
            f"create topic {name!r}",
            preview,
            lambda: create(validate_only=False),
        )

    async def _prepare_deletion(self, fields: GivenFields) -> Action:
        name = fields.text("topic")
        topic = await TopicAdmin(self._client).describe(name)

        async def carry_out() -> Document:
            await TopicAdmin(self._client).delete(name)
            return {}

        command = self._command("topics delete", name, "--execute")
        preview: Document = {"partitions": len(topic.partitions)}
        return Action(command, f"delete topic {name!r}", preview, carry_out)

    async def _prepare_settings(self, fields: GivenFields) -> Action:
        name = fields.text("topic")
        changed, unset = fields.texts_by_name("set"), fields.texts("unset")
        if not changed and not unset:
            raise InvalidRequest("no setting is to be changed: give some in set or unset")
        words: list[str] = []
        for key, text in changed.items():
            words += ["--config", f"{key}={text}"]
        for key in unset:
            words += ["--unset", key]
        changes = [
            *(ConfigChange(key, text) for key, text in changed.items()),
            *(ConfigChange(key, None, AlterOperation.DELETE) for key in unset),
        ]

        async def alter(validate_only: bool) -> Document:
            warning = await ConfigAdmin(self._client).alter(
                ResourceType.TOPIC, name, changes, validate_only=validate_only
            )
            return {"warning": warning}

        preview = await alter(validate_only=True)
        keys = ", ".join([*changed, *unset])
        return Action(
            self._command("topics alter", name, *words),
            f"change {keys} of topic {name!r}",
            preview,
            lambda: alter(validate_only=False),
        )

    # --- groups ---------------------------------------------------------------------------------------------------

    async def _prepare_reset(self, fields: GivenFields) -> Action:
        group_id, topic, kind = fields.text("group"), fields.text("topic"), fields.text("to")
        value = fields.number_or_none("value")
        if kind not in (*PLAIN_KINDS, *NUMBER_KINDS):
            raise InvalidRequest(f"to is {kind!r}; it can be {', '.join((*PLAIN_KINDS, *NUMBER_KINDS))}")
        if (value is None) == (kind in NUMBER_KINDS):
            raise InvalidRequest(f"to {kind!r} has {'a' if kind in NUMBER_KINDS else 'no'} value")
        before = await self._fetch_committed(group_id)
        cluster = await self._client.with_retries(lambda: self._client.refresh((topic,)))
        keys = cluster.partitions(topic)
        after = await find_reset_offsets(LogAdmin(self._client), keys, before, Reset(kind, value or 0))
        option = [_RESET_OPTIONS[kind], *(() if value is None else (str(value),))]

        async def carry_out() -> Document:
            offsets = {key: CommittedOffset(offset) for key, offset in after.items()}
            await GroupAdmin(self._client).alter_offsets(group_id, offsets)
            return {}

        return Action(
            self._command("groups reset-offsets", group_id, "--topic", topic, *option, "--execute"),
            f"reset offsets of group {group_id!r} on topic {topic!r} {' '.join(option)}",
            {"rows": [_reset_row(key, before.get(key), after[key]) for key in keys]},
            carry_out,
        )

    async def _prepare_restoring(self, fields: GivenFields) -> Action:
        """The undo of a reset: a text of an offset by partition, empty for none that was committed."""
        group_id, topic = fields.text("group"), fields.text("topic")
        after = _read_offsets(topic, fields.texts_by_name("offsets"))
        before = await self._fetch_committed(group_id)
        (await self._client.topics([topic])).partitions(topic, [key.partition for key in after])

        async def carry_out() -> Document:
            committed = {key: CommittedOffset(offset) for key, offset in after.items() if offset is not None}
            admin = GroupAdmin(self._client)
            if committed:
                await admin.alter_offsets(group_id, committed)
            if gone := [key for key, offset in after.items() if offset is None and key in before]:
                await admin.delete_offsets(group_id, gone)
            return {}

        saved = {
            "format": "odradek-offsets",
            "version": 1,
            "offsets": [
                {"group": group_id, "topic": topic, "partition": key.partition, "offset": offset}
                for key, offset in after.items()
            ],
        }
        command = self._command("groups reset-offsets", group_id, "--from-file", "before.json", "--execute")
        return Action(
            f"printf '%s' {shlex.quote(json.dumps(saved))} > before.json && {command}",
            f"restore offsets of group {group_id!r} on topic {topic!r}",
            {"rows": [_reset_row(key, before.get(key), offset) for key, offset in after.items()]},
            carry_out,
        )

    async def _prepare_forgetting(self, fields: GivenFields) -> Action:
        group_id, topic = fields.text("group"), fields.text("topic")
        admin = GroupAdmin(self._client)
        await admin.check_changeable(group_id, has_offsets=True)
        before = {
            key: one.offset for key, one in (await admin.offsets(group_id)).items() if key.topic == topic
        }
        if not before:
            raise InvalidRequest(f"group {group_id!r} has committed nothing of topic {topic!r}")

        async def carry_out() -> Document:
            await admin.delete_offsets(group_id, list(before))
            return {}

        return Action(
            self._command("groups delete-offsets", group_id, "--topic", topic, "--execute"),
            f"delete offsets of group {group_id!r} on topic {topic!r}",
            {"rows": [_reset_row(key, offset, None) for key, offset in sorted(before.items())]},
            carry_out,
        )

    async def _fetch_committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The present offsets of a group that may be reset. Raises NonEmptyGroup, InvalidRequest."""
        if group_id.startswith(GROUP_PREFIX):
            raise InvalidRequest(
                f"group {group_id!r} has the positions of a mirror, which are offsets of its source; "
                "use `odradek groups reset-offsets`"
            )
        admin = GroupAdmin(self._client)
        await admin.check_changeable(group_id, has_offsets=True)
        try:
            members = (await admin.describe(group_id)).members
        except GroupIdNotFound:
            members = ()
        if members:
            raise NonEmptyGroup(
                f"group {group_id!r} has {count(len(members), 'member')}; stop its consumers first"
            )
        return {key: one.offset for key, one in (await admin.offsets(group_id)).items()}


def _read_offsets(topic: str, given: Mapping[str, str]) -> dict[TopicPartition, int | None]:
    """Offsets by partition. Raises InvalidRequest for what is no number."""
    for number, offset in given.items():
        if not (_is_number(number) and (offset == "" or _is_number(offset))):
            raise InvalidRequest(f"offsets has {number!r}: {offset!r}; it has to be an offset of a partition")
    if not given:
        raise InvalidRequest("offsets is missing")
    return {
        TopicPartition(topic, int(number)): int(offset) if offset else None
        for number, offset in sorted(given.items(), key=lambda pair: int(pair[0]))
    }


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _reset_row(key: TopicPartition, before: int | None, after: int | None) -> Document:
    return {"topic": key.topic, "partition": key.partition, "before": before, "after": after}
