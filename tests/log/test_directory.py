"""Several log directories: whose they are, what survives a restart, and what a failing one takes with it."""

from __future__ import annotations

import errno
import random
import uuid

import pytest

from odradek.foundation.errors import DirectoryLocked, KafkaStorageError, SettingError
from odradek.foundation.ids import TopicPartition
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectories
from odradek.log.placement import PLACEMENT_FILE, read_placement
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, batch, stored_records

TOPIC_ID = uuid.UUID(int=12345)
CONFIG = LogConfig(segment_bytes=2000, file_delete_delay_ms=1000)
CLUSTER_ID = "abcdefghijklmnopqrstuv"


def _open(
    disk: SimulatedDisk, *paths: str, broker_id: int = 1, clock: StillClock | None = None
) -> LogDirectories:
    directories = LogDirectories(paths or ("a",), disk=disk, clock=clock or StillClock(), broker_id=broker_id)
    directories.open()
    if directories.cluster_id is None:
        directories.set_cluster_id(CLUSTER_ID)
    directories.load(lambda _: CONFIG)
    return directories


def _fill(directories: LogDirectories, topic: str, partitions: int, records: int = 5) -> None:
    logs = [
        directories.create(TopicPartition(topic, partition), TOPIC_ID, CONFIG)
        for partition in range(partitions)
    ]
    directories.note_places()
    for log in logs:
        for number in range(records):
            log.append(batch(b"%d" % number), leader_epoch=0)


def test_logs_survive_a_clean_restart_unscanned() -> None:
    disk = SimulatedDisk()
    directories = _open(disk)
    _fill(directories, "some-topic", 3)
    log = directories.get(TopicPartition("some-topic", 1))
    assert log is not None
    log.advance_log_start(2)
    directories.close()
    assert disk.exists("a/.kafka_cleanshutdown")

    directories = _open(disk)
    assert not disk.exists("a/.kafka_cleanshutdown")
    assert directories.cluster_id == CLUSTER_ID
    assert {str(log.topic_partition) for log in directories.logs()} == {
        "some-topic-0",
        "some-topic-1",
        "some-topic-2",
    }
    for log in directories.logs():
        assert (log.recovered_bytes, log.log_end_offset, log.topic_id) == (0, 5, TOPIC_ID)
    log = directories.get(TopicPartition("some-topic", 1))
    assert log is not None and log.log_start_offset == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_loses_nothing_that_was_flushed(seed: int) -> None:
    disk = SimulatedDisk()
    directories = _open(disk, "a", "b")
    rng = random.Random(seed)
    flushed: dict[TopicPartition, int] = {}
    _fill(directories, "t", 4, 0)
    for number in range(60):
        log = rng.choice(list(directories.logs()))
        log.append(batch(b"%d" % number + b"x" * rng.randint(0, 400)), leader_epoch=0)
        if rng.random() < 0.2:
            log.flush()
            flushed[log.topic_partition] = log.log_end_offset
        if rng.random() < 0.1:
            directories.checkpoint()
    contents = {log.topic_partition: stored_records(log) for log in directories.logs()}
    disk.crash(rng)
    directories = _open(disk, "a", "b")
    for topic_partition, end in flushed.items():
        found = directories.get(topic_partition)
        assert found is not None, f"{topic_partition} is gone (seed {seed})"
        kept = stored_records(found)
        assert len(kept) >= end, f"{topic_partition} lost flushed records (seed {seed})"
        assert kept == contents[topic_partition][: len(kept)]


def test_two_brokers_cannot_share_a_directory() -> None:
    disk = SimulatedDisk()
    first = _open(disk)
    with pytest.raises(DirectoryLocked):
        LogDirectories(["a"], disk=disk, clock=StillClock()).open()
    first.close()
    _open(disk)


def test_a_directory_of_another_broker_or_cluster_is_refused() -> None:
    disk = SimulatedDisk()
    _open(disk).close()
    with pytest.raises(SettingError, match=r"node\.id is 2"):
        _open(disk, broker_id=2)
    directories = LogDirectories(["a"], disk=disk, clock=StillClock(), broker_id=1)
    directories.open()
    with pytest.raises(SettingError, match="put it back from a backup"):
        directories.set_cluster_id("vutsrqponmlkjihgfedcba")


def test_new_logs_go_where_the_fewest_are() -> None:
    disk = SimulatedDisk()
    directories = _open(disk, "a", "b", "c")
    _fill(directories, "t", 7, 1)
    sizes = [len(one.log_bytes) for one in directories.describe()]
    assert sorted(sizes) == [2, 2, 3]
    assert all(one.total_bytes > 0 and one.failure is None for one in directories.describe())


def test_where_every_directory_failed_it_is_said_which_and_why() -> None:
    disk = SimulatedDisk()
    directories = LogDirectories(["a", "b"], disk=disk, clock=StillClock(), broker_id=1)
    directories.open()
    directories.set_cluster_id(CLUSTER_ID)
    directories.load(lambda _: CONFIG)
    _fill(directories, "t", 2)
    for path, reason in (("a", errno.EIO), ("b", errno.EROFS)):
        disk.fail_path(f"{path}/", reason)
    for log in list(directories.logs()):
        with pytest.raises(KafkaStorageError):
            log.append(batch(), leader_epoch=0)
    with pytest.raises(
        KafkaStorageError, match=r"failed: a \(Input.*repair the disk\), b \(Read-only.*writable.*\)"
    ):
        directories.create(TopicPartition("new", 0), TOPIC_ID, CONFIG)
    with pytest.raises(
        KafkaStorageError, match=r"can be used: a \(Input.*repair.*\), b \(Read-only.*writable"
    ):
        LogDirectories(["a", "b"], disk=disk, clock=StillClock(), broker_id=1).open()


def test_a_failed_directory_takes_only_its_own_partitions() -> None:
    disk = SimulatedDisk()
    told: list[str] = []
    directories = LogDirectories(
        ["a", "b"],
        disk=disk,
        clock=StillClock(),
        broker_id=1,
        on_offline=lambda path, _: told.append(path),
    )
    directories.open()
    directories.set_cluster_id(CLUSTER_ID)
    directories.load(lambda _: CONFIG)
    _fill(directories, "t", 4)
    lost = [log for log in directories.logs() if log.path_of_directory == "a"]
    disk.fail_path("a/", errno.EIO)
    with pytest.raises(KafkaStorageError):
        lost[0].append(batch(), leader_epoch=0)

    assert directories.offline == {"a"} and told == ["a"]
    for log in lost:
        assert directories.get(log.topic_partition) is None
        with pytest.raises(KafkaStorageError):
            log.read(0, bytes_max=10)
        with pytest.raises(KafkaStorageError, match="offline"):
            directories.create(log.topic_partition, TOPIC_ID, CONFIG)
    kept = list(directories.logs())
    assert len(kept) == 2
    for log in kept:
        assert log.append(batch(), leader_epoch=0).first_offset == 5
    assert [one.failure is None for one in directories.describe()] == [False, True]
    directories.close()

    # At the next start the directory is still broken: its partitions are known, and not made anew elsewhere.
    disk.kill()
    directories = _open(disk, "a", "b")
    assert directories.offline == {"a"}
    assert len(list(directories.logs())) == 2
    with pytest.raises(KafkaStorageError, match="log directory a failed"):
        directories.create(lost[0].topic_partition, TOPIC_ID, CONFIG)
    assert directories.create(TopicPartition("new", 0), TOPIC_ID, CONFIG).path_of_directory == "b"
    directories.close()

    disk.failing_paths.clear()
    directories = _open(disk, "a", "b")
    assert len(list(directories.logs())) == 5


def test_where_logs_lie_is_written_once_for_many_of_them() -> None:
    disk = SimulatedDisk()
    directories = _open(disk, "a", "b")
    for number in range(6):
        directories.create(TopicPartition("t", number), TOPIC_ID, CONFIG)
    assert not disk.paths(PLACEMENT_FILE)
    directories.note_places()
    assert [len(read_placement(disk, [path])["a"]) for path in ("a", "b")] == [3, 3]
    directories.delete(TopicPartition("t", 0))
    directories.delete(TopicPartition("t", 1))
    directories.note_places()
    assert sum(map(len, read_placement(disk, ["a"]).values())) == 4

    disk.remove(f"a/{PLACEMENT_FILE}")
    directories.note_places()
    assert not disk.exists(f"a/{PLACEMENT_FILE}"), "nothing has changed, so nothing is written"
    directories.close()


def test_no_directory_left_is_an_error_that_names_them() -> None:
    disk = SimulatedDisk()
    disk.fail_path("a", errno.EIO)
    with pytest.raises(KafkaStorageError, match="a"):
        LogDirectories(["a"], disk=disk, clock=StillClock()).open()


def test_a_deleted_log_is_renamed_at_once_and_removed_later() -> None:
    disk, clock = SimulatedDisk(), StillClock()
    directories = _open(disk, clock=clock)
    _fill(directories, "t", 2)
    gone = directories.get(TopicPartition("t", 0))
    assert gone is not None
    directories.delete(TopicPartition("t", 0))
    assert directories.get(TopicPartition("t", 0)) is None
    with pytest.raises(KafkaStorageError, match="deleted"):
        gone.append(batch(), leader_epoch=0)
    assert [entry.name for entry in disk.entries("a") if entry.name.endswith("-delete")]
    other = directories.create(TopicPartition("t", 0), uuid.UUID(int=99), CONFIG)
    assert (other.log_end_offset, other.topic_id) == (0, uuid.UUID(int=99))
    directories.delete_due()
    assert [entry.name for entry in disk.entries("a") if entry.name.endswith("-delete")]
    clock.advance(1000)
    directories.delete_due()
    assert not [entry.name for entry in disk.entries("a") if entry.name.endswith("-delete")]
    directories.delete(TopicPartition("t", 0))
    disk.kill()
    directories = _open(disk, clock=clock)
    directories.delete_due()
    assert not [entry.name for entry in disk.entries("a") if entry.name.endswith("-delete")]
    assert len(list(directories.logs())) == 1


def test_a_log_that_cannot_be_flushed_leaves_no_clean_marker() -> None:
    disk = SimulatedDisk()
    directories = _open(disk)
    _fill(directories, "t", 2)
    disk.capacity_bytes = 0
    directories.close()
    assert not disk.exists("a/.kafka_cleanshutdown")
    disk.capacity_bytes = None
    directories = _open(disk)
    assert [log.log_end_offset for log in directories.logs()] == [5, 5]


def test_foreign_names_are_left_alone() -> None:
    disk = SimulatedDisk()
    _open(disk).close()
    for name in ("__cluster_metadata-0", "t-0.abc-future", "lost+found", "t-1-stray", "no_partition"):
        disk.put(f"a/{name}/00000000000000000000.log", b"not ours")
    directories = _open(disk)
    assert not list(directories.logs())
    assert disk.read("a/lost+found/00000000000000000000.log") == b"not ours"


def _killed(disk: SimulatedDisk, *, vouched: bool = True) -> None:
    directories = _open(disk)
    if vouched:
        directories.vouch()
    if not list(directories.logs()):
        _fill(directories, "t", 1)
    disk.kill()


def test_a_killed_process_has_all_that_it_wrote_while_the_machine_lives() -> None:
    disk = SimulatedDisk()
    _killed(disk)
    directories = _open(disk)
    assert directories.has_all
    assert not directories.stopped_cleanly
    assert [log.log_end_offset for log in directories.logs()] == [5]


def test_a_loss_of_power_is_known_until_somebody_took_note() -> None:
    disk = SimulatedDisk()
    _killed(disk)
    disk.crash()
    assert not _open(disk).has_all
    # Killed again before anybody heard of it: the loss is still there.
    disk.kill()
    assert not _open(disk).has_all
    disk.kill()
    _killed(disk)
    assert _open(disk).has_all


def test_a_clean_stop_has_all_across_a_loss_of_power() -> None:
    disk = SimulatedDisk()
    directories = _open(disk)
    _fill(directories, "t", 1)
    directories.close()
    disk.crash()
    assert _open(disk).has_all


def test_what_a_full_disk_refuses_is_not_lost() -> None:
    disk = SimulatedDisk()
    directories = _open(disk)
    directories.vouch()
    _fill(directories, "t", 2)
    disk.capacity_bytes = disk.used_bytes
    directories.close()
    assert not disk.exists("a/.kafka_cleanshutdown"), "the indexes had no room"
    assert not directories.failures

    disk.kill()
    assert _open(disk).offline == {"a"}, "nor have they at the next start"

    disk.kill()
    disk.capacity_bytes = None
    directories = _open(disk)
    assert directories.has_all
    assert [log.log_end_offset for log in directories.logs()] == [5, 5]


def test_what_was_written_may_be_lost_where_bringing_it_to_the_device_fails_even_for_want_of_room() -> None:
    disk = SimulatedDisk()
    directories = _open(disk)
    directories.vouch()
    _fill(directories, "t", 1)
    (log,) = directories.logs()
    disk.fail_call(0, errno.ENOSPC)
    with pytest.raises(KafkaStorageError):
        log.flush()
    disk.kill()
    assert not _open(disk).has_all


def test_a_disk_that_fails_while_a_log_is_to_be_made_takes_its_directory_offline() -> None:
    disk = SimulatedDisk()
    told: list[str] = []
    directories = LogDirectories(
        ["a"], disk=disk, clock=StillClock(), broker_id=1, on_offline=lambda path, _: told.append(path)
    )
    directories.open()
    directories.set_cluster_id(CLUSTER_ID)
    directories.load(lambda _: CONFIG)
    disk.fail_path("a/", errno.EIO)
    with pytest.raises(KafkaStorageError):
        directories.create(TopicPartition("t", 0), TOPIC_ID, CONFIG)
    assert told == ["a"]


def test_nothing_is_vouched_for_where_nobody_took_note_or_the_machine_has_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedDisk()
    assert not _open(disk).has_all
    disk.kill()
    _killed(disk, vouched=False)
    assert not _open(disk).has_all
    disk.kill()
    monkeypatch.setattr(disk, "boot_id", lambda: "")
    _killed(disk)
    assert not _open(disk).has_all


def test_what_a_scan_cuts_off_may_be_missing_elsewhere() -> None:
    disk = SimulatedDisk()
    _killed(disk)
    disk.flip_bit("a/t-0/00000000000000000000.log", 8 * 100)
    assert not _open(disk).has_all


def test_a_directory_that_failed_is_not_vouched_for_after_the_restart() -> None:
    disk = SimulatedDisk()
    directories = _open(disk)
    directories.vouch()
    _fill(directories, "t", 1)
    log = directories.get(TopicPartition("t", 0))
    assert log is not None
    disk.fail_call(0, errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.append(batch(b"lost"), leader_epoch=0)
    assert directories.offline == {"a"}
    disk.kill()
    assert not _open(disk).has_all


def test_a_log_that_cannot_be_made_leaves_nothing() -> None:
    disk = SimulatedDisk()
    directories = _open(disk)
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(KafkaStorageError):
        directories.create(TopicPartition("t", 0), TOPIC_ID, CONFIG)
    assert not [entry.name for entry in disk.entries("a") if entry.is_directory]
    disk.capacity_bytes = None
    assert directories.create(TopicPartition("t", 0), TOPIC_ID, CONFIG).log_end_offset == 0
