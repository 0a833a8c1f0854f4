"""The checker's own teeth: in a history that is clean each anomaly is planted, and has to be found under its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.anomalies import account
from tests.chaos.checker import check
from tests.chaos.final_logs import StoredLog, StoredRecord
from tests.chaos.history import (
    Acknowledged,
    EpochEndAnswered,
    ErrorLogged,
    Fetched,
    GroupReported,
    HistoryFile,
    Probed,
    ProcessEnded,
    ProducerBegan,
    Refused,
    Sent,
    StateSeen,
    Transaction,
    Trespassed,
    read_events,
)
from tests.chaos.story import GROUP, KEY, NAMES, TOPIC, Story, clean, epoch_end, fetched, reported, state
from tests.support.group_commits import LoggedCommits


def test_a_clean_history_passes() -> None:
    assert clean().find() == []


def test_what_is_allowed_passes_too() -> None:
    """acks=1 may lose with a change of leaders and repeat itself; a commit without an answer may count or not."""
    story = clean()
    # one.0 was written twice by a retry; the refused p.6 is there after all, behind its successors.
    # As p gave that one up it took another epoch, and sent p.5 again.
    more = [StoredRecord(8, 1, "one.0"), StoredRecord(9, 1, "p.6", identity=(7, 0))]
    story.set_records([*story.records(), *more, StoredRecord(10, 1, "p.5", identity=(7, 1))])
    story.set_partition(high_watermark=11)
    story.final = replace(
        story.final, commits={GROUP: {KEY: LoggedCommits([("1.1", 3), ("1.2", 5), ("2.1", 8)])}}
    )
    # So the second member continued from 5.
    story.change(next(one for one in story.of(GroupReported) if one.at == 7.0), details=[[0, 5, 7]])
    assert story.find() == []
    story = clean()
    story.without({"one.1"})
    story.change(story.of(Fetched)[3], records=[(one, NAMES[one]) for one in range(2, 7)])
    story.final = replace(story.final, commits={GROUP: {KEY: LoggedCommits([("1.1", 3), ("2.1", 7)])}})
    story.change(next(one for one in story.of(GroupReported) if one.at == 7.0), details=[[0, 3, 6]])
    story.change(next(one for one in story.of(GroupReported) if one.at == 7.1), details=["2.1", [0, 7]])
    assert story.find() == []


def test_a_renewed_producer_writes_again_only_under_another_epoch() -> None:
    for identity, expected in (((7, 1), []), ((7, 0), [("I4", "duplicate record")])):
        story = clean()
        story.change(story.of(ProducerBegan)[0], renews_itself=True)
        story.set_records([*story.records(), StoredRecord(8, 1, "p.5", identity=identity)])
        assert story.find() == expected


def test_a_member_may_go_back_to_where_an_older_epoch_ended() -> None:
    """The answer was right, and it took it for the end of its present epoch."""
    story = clean()
    story.events += [reported(7.6, 2, "got", [0, 3, 7])]
    assert story.find() == []
    story.events = [event for event in story.events if not isinstance(event, EpochEndAnswered)]
    assert story.find() == [("I9", "consumer position went back")]


def test_an_epoch_may_end_before_uncommitted_records() -> None:
    story = clean()
    told_early = epoch_end(epoch=0, end_offset=2, leader_epoch=1)
    story.events.append(
        replace(told_early, at=4.9)
    )  # by then no more than 2 records were shown to clients ...
    story.events.remove(story.of(Fetched)[0])  # ... but for this reader
    assert story.find() == []


def test_a_replaced_leader_may_not_know_what_its_successor_committed() -> None:
    """A record of epoch 0 is not committed when epoch 1 begins without it. The leader of epoch 2 has and commits it."""
    story = clean()
    story.events.remove(story.of(Fetched)[0])  # the only reader of epoch 0
    for answer in story.of(Fetched):
        if answer.is_leader:
            story.change(answer, epoch=2)
    story.events.append(epoch_end(epoch=0, end_offset=2, leader_epoch=1))
    assert story.find() == []
    story.events.append(epoch_end(epoch=0, end_offset=2, leader_epoch=2))
    assert story.find() == [("I6", "epoch ends too early")]


Plant = Callable[[Story], None]
PLANTS: dict[str, tuple[tuple[str, str], Plant]] = {}


def plants(invariant: str, name: str) -> Callable[[Plant], Plant]:
    """What the anomaly planted by a function has to be called."""

    def note(plant: Plant) -> Plant:
        PLANTS[plant.__name__] = ((invariant, name), plant)
        return plant

    return note


# --- what producers were answered ------------------------------------------------------------------------------------


@plants("I1", "lost acknowledged record")
def an_acknowledged_record_is_nowhere(story: Story) -> None:
    story.without({"p.5"})


@plants("I1", "lost acknowledged record")
def a_record_acknowledged_without_an_offset_is_nowhere(story: Story) -> None:
    story.without({"p.3"})


@plants("I1", "lost acknowledged record")
def one_replica_in_sync_lacks_the_last_record(story: Story) -> None:
    story.events = [event for event in story.events if getattr(event, "producer", "") != "one"]
    story.set_records([one for one in story.records() if one.name not in ("one.0", "one.1")])
    story.set_records([one for one in story.records() if one.name not in ("p.5",)], 3)
    story.set_partition(high_watermark=6)


@plants("I1", "lost acknowledged record")
def acks_of_one_lose_without_a_change_of_leaders(story: Story) -> None:
    story.events = [event for event in story.events if not isinstance(event, StateSeen | Fetched)]
    story.set_records([replace(one, epoch=1) for one in story.records()])
    story.without({"one.1"})


@plants("I1", "acknowledged record at another offset")
def a_record_is_not_at_its_acknowledged_offset(story: Story) -> None:
    event = next(one for one in story.of(Acknowledged) if one.producer == "p" and one.number == 4)
    story.change(event, offset=5)


@plants("I1", "record that was read is lost")
def a_record_that_was_read_is_gone_in_the_end(story: Story) -> None:
    story.events = [event for event in story.events if not isinstance(event, Acknowledged)]
    story.without({"one.1"})


@plants("I2", "offset with two values")
def two_replicas_differ(story: Story) -> None:
    records = story.records()
    records[7] = replace(records[7], name="one.0")
    story.set_records(records, 3)


@plants("I2", "offset with two values")
def two_replicas_differ_in_the_epoch_alone(story: Story) -> None:
    records = story.records()
    records[2] = replace(records[2], epoch=1)
    story.set_records(records, 1)


@plants("I2", "offset with two values")
def replicas_of_another_topic_differ(story: Story) -> None:
    logs = {**story.partition.logs, 3: StoredLog(0, [StoredRecord(0, 0, "other")])}
    compared = replace(story.partition, logs=logs)
    story.final = replace(story.final, compared={("__consumer_offsets", 0): compared})


@plants("I2", "offset with two values")
def a_reader_saw_another_value(story: Story) -> None:
    event = story.of(Fetched)[0]
    story.change(event, records=[(0, "p.0"), (1, "p.9")])


@plants("-", "phantom record")
def a_record_never_sent(story: Story) -> None:
    story.set_records([*story.records(), StoredRecord(8, 1, "stranger.0")])


@plants("-", "phantom record")
def a_record_of_another_partition(story: Story) -> None:
    event = next(one for one in story.of(Sent) if one.producer == "p" and one.number == 6)
    story.change(event, partition=1)
    story.set_records([*story.records(), StoredRecord(8, 1, "p.6")])


@plants("I3", "reordered records")
def two_records_change_places(story: Story) -> None:
    records = story.records()
    records[4], records[5] = replace(records[5], offset=4), replace(records[4], offset=5)
    story.set_records(records)


@plants("I4", "duplicate record")
def an_idempotent_producer_is_written_twice(story: Story) -> None:
    story.set_records([*story.records(), StoredRecord(8, 1, "p.5", identity=(7, 0))])


@plants("I4", "duplicate record")
def a_producer_that_never_gave_up_is_written_twice_under_two_epochs(story: Story) -> None:
    story.events = [event for event in story.events if not isinstance(event, Refused)]
    story.events = [event for event in story.events if not (isinstance(event, Sent) and event.at == 12.0)]
    story.set_records([*story.records(), StoredRecord(8, 1, "p.5", identity=(7, 1))])


# --- what readers saw --------------------------------------------------------------------------------------------


@plants("I5", "high watermark went back")
def the_high_watermark_goes_back_within_an_epoch(story: Story) -> None:
    story.events.append(fetched(10.5, 5, 0, high_watermark=5, last_stable_offset=5))


@plants("I5", "served above the high watermark")
def a_record_above_the_high_watermark_is_served(story: Story) -> None:
    story.change(story.of(Fetched)[3], high_watermark=7, last_stable_offset=7)


@plants("I5", "served above the high watermark")
def a_follower_serves_above_its_high_watermark(story: Story) -> None:
    story.events.append(
        fetched(9.9, 2, 3, broker=3, is_leader=False, epoch=-1, high_watermark=4, last_stable_offset=4)
    )


@plants("I2", "reader skipped offsets")
def an_answer_leaves_a_record_out(story: Story) -> None:
    story.change(story.of(Fetched)[3], records=[(2, "p.2"), (4, "p.4")])


@plants("I2", "reader went back")
def an_answer_begins_too_early(story: Story) -> None:
    story.change(story.of(Fetched)[3], records=[(1, "p.1"), (2, "p.2")])


@plants("I8", "last stable offset above the high watermark")
def the_last_stable_offset_is_above(story: Story) -> None:
    story.change(story.of(Fetched)[1], last_stable_offset=3)


@plants("I8", "last stable offset went back")
def the_last_stable_offset_goes_back(story: Story) -> None:
    story.events.append(fetched(10.5, 8, 0, last_stable_offset=6))


@plants("I8", "aborted record read")
def an_aborted_record_is_read(story: Story) -> None:
    story.events.append(Transaction(at=5.0, producer="p", numbers=[3, 4], outcome="aborted"))
    story.change(story.of(Fetched)[3], is_committed_only=True)


@plants("I8", "torn transaction")
def half_of_a_transaction_is_written(story: Story) -> None:
    story.events.append(Transaction(at=5.0, producer="p", numbers=[5, 6], outcome="committed"))


# --- leaders ---------------------------------------------------------------------------------------------------


@plants("I6", "two leaders in one epoch")
def the_registry_names_two_leaders(story: Story) -> None:
    story.events.append(state(5.0, 3, 1, (2, 3), source="broker 1"))


@plants("I6", "two leaders in one epoch")
def two_brokers_answer_as_leader_of_one_epoch(story: Story) -> None:
    story.events.append(fetched(9.9, 8, 0, broker=1, epoch=1))


@plants("I6", "leader epoch went back")
def the_epoch_goes_back(story: Story) -> None:
    story.events.append(state(10.0, 1, 0, (1, 2, 3)))


@plants("I6", "leader epoch went back")
def a_record_of_an_older_epoch_stands_behind(story: Story) -> None:
    records = story.records()
    records[7] = replace(records[7], epoch=0)
    story.set_records(records)


@plants("I7", "in-sync broker is no replica")
def a_stranger_is_in_sync(story: Story) -> None:
    story.events.append(state(10.0, 2, 1, (2, 4)))


@plants("I7", "leader is not in sync")
def a_leader_is_not_in_sync(story: Story) -> None:
    story.events.append(state(10.0, 2, 1, (1, 3)))


@plants("I7", "in-sync replica is behind the high watermark")
def a_replica_in_sync_is_behind(story: Story) -> None:
    story.set_records(story.records()[:6], 3)


# --- groups ------------------------------------------------------------------------------------------------------


def logged(story: Story, *commits: tuple[str, int]) -> None:
    story.final = replace(story.final, commits={GROUP: {KEY: LoggedCommits(commits)}})


@plants("I9", "lost commit")
def an_acknowledged_commit_is_not_in_the_log(story: Story) -> None:
    logged(story, ("2.1", 8))


@plants("I9", "two members own a partition")
def the_first_member_commits_after_the_second(story: Story) -> None:
    story.events.append(reported(8.0, 1, "assigned", 0))
    story.events = [
        event
        for event in story.events
        if not (isinstance(event, GroupReported) and event.member == 1 and event.at in (6.0, 6.1, 6.2, 8.0))
    ]
    story.events += [reported(7.5, 1, "commits", "1.3", [0, 8]), reported(7.6, 1, "committed", "1.3")]
    logged(story, ("1.1", 3), ("2.1", 8), ("1.3", 8))


@plants("I9", "commit out of order")
def a_commit_comes_after_a_later_one(story: Story) -> None:
    logged(story, ("2.1", 8), ("1.1", 3))


@plants("I9", "committed offset went back")
def positions_in_the_log_go_back(story: Story) -> None:
    logged(story, ("1.1", 3), ("2.1", 8), ("2.2", 4))
    story.events += [reported(7.5, 2, "commits", "2.2", [0, 4]), reported(7.6, 2, "committed", "2.2")]


@plants("I9", "committed offset went back")
def a_member_begins_before_what_was_committed(story: Story) -> None:
    story.change(next(one for one in story.of(GroupReported) if one.at == 7.0), details=[[0, 1, 7]])


@plants("I6", "epoch ends too early")
def a_leader_answers_too_early_an_end_of_the_epoch_before(story: Story) -> None:
    story.events.append(epoch_end(epoch=0, end_offset=2, leader_epoch=1))


@plants("I9", "consumer position went back")
def a_member_takes_a_record_again(story: Story) -> None:
    story.change(next(one for one in story.of(GroupReported) if one.at == 5.0), details=[[0, 2, 4]])


@plants("I9", "skipped record")
def a_member_leaves_a_record_out(story: Story) -> None:
    story.change(next(one for one in story.of(GroupReported) if one.at == 5.0), details=[[0, 4, 4]])


@plants("I9", "skipped record")
def no_member_takes_a_record_below_the_last_commit(story: Story) -> None:
    story.change(next(one for one in story.of(GroupReported) if one.at == 5.0), details=[[0, 3, 3]])
    story.change(next(one for one in story.of(GroupReported) if one.at == 7.0), details=[[0, 5, 7]])


@plants("I9", "phantom record")
def a_member_takes_what_the_log_does_not_have(story: Story) -> None:
    story.events.append(reported(9.0, 2, "got", [0, 8, 8]))


@plants("I9", "phantom commit")
def a_commit_never_made(story: Story) -> None:
    logged(story, ("1.1", 3), ("2.1", 8), ("7.1", 8))


# --- service -----------------------------------------------------------------------------------------------------


@plants("I12", "unavailable after healing")
def a_probe_fails(story: Story) -> None:
    story.events.append(Probed(at=80.0, begun_at=20.0, what="a record is written", error="timed out"))


@plants("I12", "request without an answer")
def a_producer_hears_nothing(story: Story) -> None:
    story.events.append(Sent(at=13.0, producer="p", number=7, topic=TOPIC, partition=0))


@plants("I1", "lost topic")
def a_topic_is_gone(story: Story) -> None:
    story.final = replace(story.final, topics=frozenset({TOPIC}))


@plants("I2", "resurrected topic")
def a_deleted_topic_is_back(story: Story) -> None:
    story.final = replace(story.final, topics=frozenset({TOPIC, "made", "gone"}))


@plants("-", "process ended by itself")
def a_broker_gives_up(story: Story) -> None:
    story.events.append(ProcessEnded(at=5.0, process="broker-2", exit_code=1, said="no", excuse=""))


@plants("I14", "denied and done")
def a_denied_write_is_served(story: Story) -> None:
    story.events.append(Trespassed(at=5.0, what="a denied write is at t-0:5"))


@plants("-", "error in the log")
def a_broker_logs_a_traceback(story: Story) -> None:
    story.events.append(ErrorLogged(at=5.0, process="broker-2", text="Traceback …"))


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_anomaly_is_found_and_named(plant: str) -> None:
    expected, do = PLANTS[plant]
    story = clean()
    do(story)
    assert expected in story.find()


def test_an_account_has_events_around_it_and_active_faults() -> None:
    story = clean()
    story.without({"p.5"})
    text = account(check(story.events, story.final, topic=TOPIC), story.events)
    assert (
        "I1 lost acknowledged record: p.5 was acknowledged at t-0:5 (acks=-1) and is not on broker 1" in text
    )
    assert "faults in force at 6.500 s:\n    kill -9 of broker-1" in text
    assert "Acknowledged(at=6.5, producer='p', number=5" in text


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    events = clean().events
    history = HistoryFile(tmp_path / "history.jsonl")
    for event in events:
        history.add(event)
    history.close()
    assert len(list(read_events(history.path))) == len(events)
    assert Story(list(read_events(history.path)), clean().final).find() == []
    with history.path.open("a") as file:
        file.write('["Nothing",1]\n')
    with pytest.raises(ValueError, match="no event of a history"):
        list(read_events(history.path))
