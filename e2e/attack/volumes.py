"""Claims that are deleted."""

from __future__ import annotations

from e2e.attack.attacks import attack
from e2e.attack.field import Field, of, wait_seconds
from e2e.attack.pods import all_replaced

VALUES = [f"kept-{number}" for number in range(300)]


@attack(
    "a broker's claim is deleted and all restart: the broker with the only replica is left alone, and says why"
)
def claim_deleted_before_a_roll(field: Field) -> None:
    number = field.chance.randrange(3)
    pod, topic = f"demo-broker-{number}", f"alone-{field.word()}"
    field.kube.apply(of("Topic", topic, cluster="demo", partitions=3, replicas=1, deletionPolicy="Delete"))
    field.kube.ready("topic", topic, 60)
    field.as_admin("produce", topic, stdin="".join(f"{one}\n" for one in VALUES))
    before = field.pods("broker")
    field.kube.run("delete", "pvc", f"data-{pod}", "--wait=false")
    said = field.condition(field.kube, "cluster", "demo", "Volumes", "AtRisk")
    assert f"data-{pod}" in said, said
    field.kube.run("annotate", "cluster", "demo", f"odradek.io/restart={field.word()}", "--overwrite")
    all_replaced(field, {name: uid for name, uid in before.items() if name != pod})
    wait_seconds(10)
    assert field.pods("broker")[pod] == before[pod], f"{pod} was restarted, and its volume is gone"
    assert f"data-{pod}" in field.events(field.kube), "a Warning names the claim"
    # As the page says: the records go elsewhere, and then a new volume loses nothing.
    field.kube.patch("topic", topic, {"spec": {"replicas": 3}})
    field.kube.run("annotate", "pod", pod, "odradek.io/replace=true", "--overwrite")
    all_replaced(field, {pod: before[pod]})
    field.whole()
    held = field.as_admin("consume", topic, "--from-beginning").split()
    assert sorted(held) == sorted(VALUES), f"{len(held)} of {len(VALUES)} records"
    field.kube.delete("topic", topic)
