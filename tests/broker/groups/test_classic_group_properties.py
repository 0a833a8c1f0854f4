"""The state machine of classic groups under any order of events, against a simple model and what must always hold.

The machine runs on a clock and a store that the test moves by hand. Members are simple clients that remember their
answers. The model has each generation's leader, its members, and what its leader assigned. All answers for that
generation must agree.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.broker.coordination.timers import Wakeable
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.members import JoinResult, SyncRequest, SyncResult
from odradek.broker.groups.classic.rebalance import GroupState, Rebalance
from odradek.broker.groups.classic.schema import ClassicGroupValue
from odradek.foundation import errors
from tests.support.coordinator_world import join_request
from tests.support.examples import examples

PARTITIONS = frozenset(range(6))
SESSION_MS = 10_000


class HandMovedHost:
    """Time does not move until `clock` is moved; writes wait in `writes`."""

    max_size = 5
    initial_rebalance_delay_ms = 3000

    def __init__(self) -> None:
        self.clock = 0.0
        self.ids = 0
        self.writes: list[tuple[ClassicGroupValue, Callable[[errors.OdradekError | None], None]]] = []
        self.stored: ClassicGroupValue | None = None

    def now(self) -> float:
        return self.clock

    def rebalance_completed(self) -> None:
        return

    def wall_ms(self) -> int:
        return int(self.clock * 1000)

    def new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def store(
        self,
        group: Rebalance,
        value: ClassicGroupValue,
        on_stored: Callable[[errors.OdradekError | None], None],
    ) -> None:
        self.writes.append((value, on_stored))

    def wake(self, timed: Wakeable) -> None:
        return

    def write(self, error: errors.OdradekError | None) -> None:
        value, on_stored = self.writes.pop(0)
        if error is None:
            self.stored = value
        on_stored(error)


class Generation:
    """What the model knows of one generation, from the answers that members were given."""

    def __init__(self) -> None:
        self.leaders: set[str] = set()
        self.joined: set[str] = set()
        self.assigned: dict[str, bytes] = {}


class Client:
    """A member as it sees itself."""

    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.joined: JoinResult | None = None
        self.owned: frozenset[int] = frozenset()
        self.owned_generation = -1
        self.is_waiting = False
        self.answers = 0

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.joined = None


class ClassicGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = HandMovedHost()
        self.group = ClassicGroup("g", self.host)
        self.clients: list[Client] = []
        self.clients_gone: list[Client] = []
        self.model: dict[int, Generation] = {}
        self.generation_seen = 0
        self.owners: dict[int, dict[int, Client]] = {}
        self.instances: dict[str, str] = {}  # of static members, by all ids that they ever had

    # --- what clients do ------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 8)
    @rule(static=st.booleans())
    def arrive(self, static: bool) -> None:
        taken = {client.instance_id for client in self.clients}
        free = [name for name in ("i1", "i2", "i3") if name not in taken]
        self.clients.append(Client(free[0] if static and free else None))

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), knows_id=st.booleans())
    def join(self, data: st.DataObject, knows_id: bool) -> None:
        self.join_as(data.draw(st.sampled_from(self.clients)), knows_id=knows_id)

    def join_as(self, client: Client, *, knows_id: bool) -> None:
        if client.is_waiting:
            return
        client.is_waiting = True
        expected = client.answers + 1

        def answer(result: JoinResult) -> None:
            client.answers += 1
            assert client.answers == expected, "a join was answered twice"
            client.is_waiting = False
            if result.error is None:
                client.member_id = result.member_id
                client.generation = result.generation
                client.joined = result
                self.told_generation(client, result)
            elif type(result.error).__name__ == "MemberIdRequired":
                client.member_id = result.member_id
            else:
                client.forget()

        request = join_request(
            client.member_id,
            instance_id=client.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=30_000,
            requires_known_member_id=knows_id and not client.member_id and client.instance_id is None,
        )
        try:
            self.group.join(request, answer)
        except errors.RequestError as error:
            answer(JoinResult(error=error, member_id=client.member_id))

    @precondition(lambda self: any(client.joined for client in self.clients))
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        self.sync_as(data.draw(st.sampled_from([client for client in self.clients if client.joined])))

    def sync_as(self, client: Client) -> None:
        joined = client.joined
        assert joined is not None
        assignments: dict[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            members = [member_id for member_id, _, _ in joined.members]
            for number, member_id in enumerate(members):
                assignments[member_id] = bytes(sorted(PARTITIONS)[number :: len(members)])
            # After a move a generation's number may come again: the leader of the earlier one is then unknown.
            if (
                joined.generation == self.group.rebalance.generation
                and joined.member_id == self.group.members.leader
                and self.group.rebalance.state is GroupState.COMPLETING_REBALANCE
            ):
                self.model[joined.generation].assigned = assignments
        generation = joined.generation

        def answer(result: SyncResult) -> None:
            if result.error is None:
                assert generation == self.group.rebalance.generation, (
                    "an assignment for a generation that is over"
                )
                known = self.model[generation]
                if joined.member_id in known.joined:
                    assert result.assignment == known.assigned.get(joined.member_id, b""), (
                        "another's assignment"
                    )
                client.owned = frozenset(result.assignment)
                client.owned_generation = generation
                self.owns(client, generation)
            elif isinstance(result.error, errors.UnknownMemberId | errors.FencedInstanceId):
                client.forget()
            client.joined = None

        request = SyncRequest(
            member_id=joined.member_id,
            instance_id=client.instance_id,
            generation=generation,
            protocol_type=joined.protocol_type,
            protocol=joined.protocol,
            assignments=assignments,
        )
        try:
            self.group.sync(request, answer)
        except errors.RequestError as error:
            answer(SyncResult(error=error))

    @precondition(lambda self: any(client.member_id for client in self.clients))
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([client for client in self.clients if client.member_id]))
        try:
            self.group.heartbeat(
                member_id=client.member_id, instance_id=client.instance_id, generation=client.generation
            )
        except (errors.RebalanceInProgress, errors.IllegalGeneration):
            return
        except (errors.UnknownMemberId, errors.FencedInstanceId):
            if not client.is_waiting and client.generation >= 0:
                client.forget()
            return
        assert client.member_id in self.group.members
        assert client.generation == self.group.rebalance.generation

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        if client.is_waiting:
            return
        try:
            self.group.leave(client.member_id, client.instance_id)
            self.group.after_leave()
        except errors.RequestError:
            pass
        client.forget()

    @precondition(lambda self: any(client.instance_id for client in self.clients))
    @rule(data=st.data())
    def restart_static(self, data: st.DataObject) -> None:
        """A static member's process restarts: it has forgotten its id, and its waiting join has no owner."""
        client = data.draw(st.sampled_from([client for client in self.clients if client.instance_id]))
        self.clients.remove(client)
        self.clients_gone.append(client)
        self.clients.append(Client(client.instance_id))

    @precondition(lambda self: self.clients)
    @rule()
    def rebalance(self) -> None:
        """What a healthy group does most of the time: all join, all sync, all is written."""
        for _ in range(2):  # the second time with the id that the first has brought
            for client in list(self.clients):
                if client.joined is None:
                    self.join_as(client, knows_id=False)
            self.wait(3.0)
            while self.host.writes:
                self.host.write(None)
        for client in sorted(self.clients, key=lambda client: client.member_id):
            if client.joined is not None:
                self.sync_as(client)
        while self.host.writes:
            self.host.write(None)

    # --- what the world does --------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.0, 31.0, 301.0]))
    def wait(self, seconds: float) -> None:
        end = self.host.clock + seconds
        wakings = 0
        while self.group.rebalance.wake_at <= end:
            wakings += 1
            assert wakings < 1000, "the group wants to be woken again and again"
            assert self.group.rebalance.wake_at >= self.host.clock, "a deadline was missed"
            self.host.clock = self.group.rebalance.wake_at
            self.group.rebalance.expire()
        self.host.clock = end

    @precondition(lambda self: self.host.writes)
    @rule(fails=st.sampled_from([False, False, False, True]))
    def write(self, fails: bool) -> None:
        self.host.write(errors.CoordinatorNotAvailable("the disk") if fails else None)

    @precondition(lambda self: not self.host.writes and self.host.stored is not None)
    @rule()
    def move_to_another_broker(self) -> None:
        """What is stored is loaded; waiting members are answered to look for the coordinator again."""
        self.group.die(errors.CoordinatorNotAvailable("moved"))
        assert self.host.stored is not None
        stored = self.host.stored
        self.group = ClassicGroup.from_value("g", stored, self.host)
        self.group.start_sessions()
        if self.group.rebalance.state in (GroupState.STABLE, GroupState.EMPTY):
            assert self.group.rebalance.value() == stored
        self.generation_seen = min(self.generation_seen, self.group.rebalance.generation)
        self.model = {number: known for number, known in self.model.items() if number <= stored.generation}
        self.owners = {
            number: owners for number, owners in self.owners.items() if number <= stored.generation
        }

    # --- what must hold -------------------------------------------------------------------------------------

    def told_generation(self, client: Client, result: JoinResult) -> None:
        """A member learns of a generation: it has one leader, which learns of every member; it is never one that is
        over."""
        assert result.generation == self.group.rebalance.generation, "a generation that is over"
        self.note_instances()
        known = self.model.setdefault(result.generation, Generation())
        if client.instance_id is None:
            known.joined.add(result.member_id)
            # A static member may lead under one id and come back under another.
            known.leaders.add(self.instances.get(result.leader, result.leader))
        names = {member_id for member_id, _, _ in result.members}
        if result.members and self.group.rebalance.state is GroupState.COMPLETING_REBALANCE:
            assert result.leader == result.member_id, "the list of members is the leader's alone"
            assert names >= known.joined, "the leader does not learn of every member"
        assert len(known.leaders) <= 1, "two leaders of one generation"

    @invariant()
    def note_instances(self) -> None:
        for member in self.group.members:
            if member.instance_id is not None:
                self.instances[member.member_id] = member.instance_id

    def owns(self, client: Client, generation: int) -> None:
        owners = self.owners.setdefault(generation, {})
        for partition in client.owned:
            other = owners.setdefault(partition, client)
            same = other is client or (
                client.instance_id is not None and other.instance_id == client.instance_id
            )
            assert same, f"two owners of {partition} in generation {generation}"

    @invariant()
    def generations_never_go_back(self) -> None:
        assert self.group.rebalance.generation >= self.generation_seen
        self.generation_seen = self.group.rebalance.generation

    @invariant()
    def the_leader_is_a_member(self) -> None:
        leader = self.group.members.leader
        assert (leader is None) == (len(self.group.members) == 0)
        assert leader is None or leader in self.group.members

    @invariant()
    def the_bound_holds(self) -> None:
        assert self.group.members.awaiting_join <= max(self.host.max_size, 1)

    @invariant()
    def states_fit_their_members(self) -> None:
        group = self.group
        waiting = [member for member in group.members if member.answer_join is not None]
        assert len(waiting) == group.members.awaiting_join
        if group.rebalance.state is GroupState.EMPTY:
            assert not len(group.members)
        if group.rebalance.state is GroupState.STABLE:
            assert len(group.members)
            assert not [member for member in group.members if member.answer_sync is not None]
        if group.rebalance.state is not GroupState.PREPARING_REBALANCE:
            allowed = (
                1 if self.host.writes else 0
            )  # a static member that came back while its new id is written
            assert len(waiting) <= allowed + sum(client.instance_id is not None for client in self.clients)

    @invariant()
    def nobody_is_forgotten(self) -> None:
        """Every member of the group has a deadline, or an answer that waits."""
        for member in self.group.members:
            assert (
                member.deadline is not None
                or member.answer_join is not None
                or member.answer_sync is not None
            )
            if member.deadline is not None:
                assert self.group.rebalance.wake_at <= member.deadline

    def teardown(self) -> None:
        """Without further events, all groups become stable, and every join and sync is answered."""
        for _ in range(12):
            while self.host.writes:
                self.host.write(None)
            self.wait(301.0)
        assert not self.host.writes
        assert not [client for client in self.clients + self.clients_gone if client.is_waiting]
        assert self.group.rebalance.state is GroupState.EMPTY


TestClassicGroup = ClassicGroupMachine.TestCase
TestClassicGroup.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
