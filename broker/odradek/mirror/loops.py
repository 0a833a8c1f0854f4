"""Refuses mirrors that would copy records in a loop.

MirrorMaker sees a loop by the target's alias in a topic's name. That fails where two aliases are one cluster, and where
names are kept. So clusters are compared by their ids. Where names are kept, the source is asked for mirrors that write
to it: their positions name the cluster that they read.
"""

from __future__ import annotations

from odradek.client.admin.groups import GroupAdmin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek.mirror.errors import MirrorRefused
from odradek.mirror.positions import source_cluster
from odradek.mirror.settings import GROUP_PREFIX, IDENTITY_POLICY, FlowSettings


async def refuse_same_cluster(settings: FlowSettings, source: Client, target: Client) -> None:
    """Raises MirrorRefused where source and target are one cluster."""
    source_id = (await source.with_retries(lambda: source.refresh(()))).cluster_id
    target_id = (await target.with_retries(lambda: target.refresh(()))).cluster_id
    if source_id is not None and source_id == target_id:
        raise MirrorRefused(
            f"{settings.source.alias} and {settings.target.alias} are one cluster ({source_id}): its topics would be "
            "mirrored into itself without end. Correct the bootstrap.servers of one of them"
        )


async def topics_from(source: Client, cluster_id: str | None) -> set[str]:
    """Topics of the source that a mirror with committed positions writes, and that it reads from this cluster."""
    groups = GroupAdmin(source)
    found: set[str] = set()
    for group in await groups.list():
        if group.group_id.startswith(GROUP_PREFIX):
            try:
                committed = await groups.offsets(group.group_id)
            except OdradekError:
                continue  # the group was deleted since
            found |= {
                key.topic for key, one in committed.items() if source_cluster(one.metadata) == cluster_id
            }
    return found


async def refuse_identity_loop(
    settings: FlowSettings, source: Client, target: Client, chosen: set[str]
) -> None:
    """Raises MirrorRefused where names are kept, and a topic to mirror comes from the target itself."""
    if settings.replication_policy_class != IDENTITY_POLICY:
        return
    around = chosen & await topics_from(source, target.cluster.cluster_id)
    if around:
        raise MirrorRefused(
            f"{settings.label} would mirror topics that another mirror copies from {settings.target.alias}: "
            f"{', '.join(sorted(around)[:5])}. With {IDENTITY_POLICY} their records would go round without end. "
            "Leave them out by topics.exclude, or use DefaultReplicationPolicy"
        )
