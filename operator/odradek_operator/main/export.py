"""Topic resources for the topics that a cluster has already, as YAML for `kubectl apply`.

Applied, they take the topics over and change nothing: each says what there is. So they adopt with AdoptIfEqual, and a
topic that was changed in between is reported, not changed back. Left out are the brokers' own topics, and settings that
a Topic cannot have, which are named in a comment.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import yaml

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek_operator.gateways.topic_values import ActualTopic
from odradek_operator.gateways.topics import BrokerTopics
from odradek_operator.resources.definition import API_VERSION
from odradek_operator.resources.structure import InvalidResource, parse, render
from odradek_operator.resources.topic import TOPIC, TOPIC_CONFIGURATION, TopicResourceSpec

RESOURCE_NAME_LENGTH_MAX: Final = 253
_RESOURCE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HASH_LENGTH: Final = 8


async def export(
    bootstrap: str, *, cluster: str, namespace: str | None, names: Sequence[str] = ()
) -> list[str]:
    """The documents, sorted by the topics' names: all topics, or `names`.

    Raises OdradekError when the brokers cannot be asked, UnknownTopicOrPartition for a name that is not there.
    """
    async with Client(bootstrap, client_id="odradek-operator-export") as client:
        admin = Admin(client)
        if names:
            wanted = [(await admin.topics.describe(name)).name for name in names]
        else:
            wanted = [topic.name for topic in await admin.topics.list(include_internal=False)]
        seen = await BrokerTopics(client).describe(wanted)
    found: list[ActualTopic] = []
    for topic in seen.topics.values():
        if isinstance(topic, OdradekError):
            raise topic
        if topic is not None and not topic.name.startswith("__"):
            found.append(topic)
    return list(render_documents(found, cluster=cluster, namespace=namespace))


def render_documents(topics: Iterable[ActualTopic], *, cluster: str, namespace: str | None) -> Iterator[str]:
    """One YAML document for each topic, of different resource names."""
    for topic in sorted(topics, key=lambda topic: topic.name):
        kept = {key: text for key, text in topic.config.items() if key in TOPIC_CONFIGURATION.settings}
        manifest = _manifest(topic, kept, cluster=cluster, namespace=namespace)
        notes = [f"# left out: {key}={text}" for key, text in sorted(topic.config.items()) if key not in kept]
        text = yaml.safe_dump(manifest, sort_keys=False, default_flow_style=False, allow_unicode=True)
        yield "\n".join(["---", *notes, text])


def _manifest(
    topic: ActualTopic, config: Mapping[str, str], *, cluster: str, namespace: str | None
) -> dict[str, object]:
    name = resource_name(topic.name)
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    spec: dict[str, object] = {"cluster": cluster}
    if name != topic.name:
        spec["name"] = topic.name
    spec |= {
        "partitions": len(topic.partitions),
        "replicas": max((len(partition.lasting) for partition in topic.partitions), default=1),
        "adoptionPolicy": "AdoptIfEqual",
    }
    if config:
        spec["config"] = TOPIC_CONFIGURATION.render(dict(sorted(config.items())))
    try:
        render(parse(TopicResourceSpec, spec))
    except InvalidResource as problem:
        raise ValueError(f"the topic {topic.name} cannot be a Topic resource: {problem}") from None
    return {"apiVersion": API_VERSION, "kind": TOPIC.kind, "metadata": metadata, "spec": spec}


def resource_name(topic: str) -> str:
    """A name that Kubernetes takes: the topic's own where it is one, else one that no other topic gets."""
    if len(topic) <= RESOURCE_NAME_LENGTH_MAX and _RESOURCE_NAME.fullmatch(topic):
        return topic
    # Capitals, underscores and dots in a row go, so that two topics may come out alike: the hash keeps them apart.
    plain = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")
    suffix = hashlib.sha256(topic.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{plain[: RESOURCE_NAME_LENGTH_MAX - _HASH_LENGTH - 1].rstrip('-')}-{suffix}".lstrip("-")
