"""Several log directories: whose they are, what survives a restart, and what a failing one takes with it."""

from __future__ import annotations

import errno
import random
import uuid

import pytest

from odradek.foundation.errors import DirectoryLocked, KafkaStorageError, SettingError
from odradek.foundation.ids import TopicPartition
from odradek.storage.config import LogConfig
from odradek.storage.directories.log_manager import PLACEMENT_FILE, LogManager, read_placement
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, batch, delete_due, load, stored_records

TOPIC_ID = uuid.UUID(int=12345)
CONFIG = LogConfig(segment_bytes=2000, file_delete_delay_ms=1000)
CLUSTER_ID = "abcdefghijklmnopqrstuv"


def _open(
    disk: SimulatedDisk, *paths: str, broker_id: int = 1, clock: StillClock | None = None
) -> LogManager:
    manager = LogManager(paths or ("a",), disk=disk, clock=clock or StillClock(), broker_id=broker_id)
    manager.directories.open()
    if manager.directories.cluster_id is None:
        manager.directories.set_cluster_id(CLUSTER_ID)
    load(manager, lambda _: CONFIG)
    return manager


def _fill(manager: LogManager, topic: str, partitions: int, records: int = 5) -> None:
    logs = [
        manager.create(TopicPartition(topic, partition), TOPIC_ID, CONFIG) for partition in range(partitions)
    ]
    manager.save_placement()
    for log in logs:
        for number in range(records):
            log.append(batch(b"%d" % number), leader_epoch=0)


def test_logs_survive_a_clean_restart_unscanned() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    _fill(manager, "some-topic", 3)
    log = manager.get(TopicPartition("some-topic", 1))
    assert log is not None
    log.advance_log_start(2)
    manager.close()
    assert disk.exists("a/.kafka_cleanshutdown")

    manager = _open(disk)
    assert not disk.exists("a/.kafka_cleanshutdown")
    assert manager.directories.cluster_id == CLUSTER_ID
    assert {str(log.topic_partition) for log in manager.logs()} == {
        "some-topic-0",
        "some-topic-1",
        "some-topic-2",
    }
    for log in manager.logs():
        assert (log.recovered_bytes, log.log_end_offset, log.topic_id) == (0, 5, TOPIC_ID)
    log = manager.get(TopicPartition("some-topic", 1))
    assert log is not None and log.log_start_offset == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_loses_nothing_that_was_flushed(seed: int) -> None:
    disk = SimulatedDisk()
    manager = _open(disk, "a", "b")
    rng = random.Random(seed)
    flushed: dict[TopicPartition, int] = {}
    _fill(manager, "t", 4, 0)
    for number in range(60):
        log = rng.choice(list(manager.logs()))
        log.append(batch(b"%d" % number + b"x" * rng.randint(0, 400)), leader_epoch=0)
        if rng.random() < 0.2:
            log.flush()
            flushed[log.topic_partition] = log.log_end_offset
        if rng.random() < 0.1:
            manager.checkpoint()
    contents = {log.topic_partition: stored_records(log) for log in manager.logs()}
    disk.crash(rng)
    manager = _open(disk, "a", "b")
    for topic_partition, end in flushed.items():
        found = manager.get(topic_partition)
        assert found is not None, f"{topic_partition} is gone (seed {seed})"
        kept = stored_records(found)
        assert len(kept) >= end, f"{topic_partition} lost flushed records (seed {seed})"
        assert kept == contents[topic_partition][: len(kept)]


def test_two_brokers_cannot_share_a_directory() -> None:
    disk = SimulatedDisk()
    first = _open(disk)
    with pytest.raises(DirectoryLocked):
        LogManager(["a"], disk=disk, clock=StillClock()).directories.open()
    first.close()
    _open(disk)


def test_a_directory_of_another_broker_or_cluster_is_refused() -> None:
    disk = SimulatedDisk()
    _open(disk).close()
    with pytest.raises(SettingError, match=r"node\.id is 2"):
        _open(disk, broker_id=2)
    manager = LogManager(["a"], disk=disk, clock=StillClock(), broker_id=1)
    manager.directories.open()
    with pytest.raises(SettingError, match="put it back from a backup"):
        manager.directories.set_cluster_id("vutsrqponmlkjihgfedcba")


def test_new_logs_go_to_the_directory_with_the_fewest() -> None:
    disk = SimulatedDisk()
    manager = _open(disk, "a", "b", "c")
    _fill(manager, "t", 7, 1)
    sizes = [len(one.log_bytes) for one in manager.describe()]
    assert sorted(sizes) == [2, 2, 3]
    assert all(one.total_bytes > 0 and one.failure is None for one in manager.describe())


def test_where_every_directory_failed_it_is_said_which_and_why() -> None:
    disk = SimulatedDisk()
    manager = LogManager(["a", "b"], disk=disk, clock=StillClock(), broker_id=1)
    manager.directories.open()
    manager.directories.set_cluster_id(CLUSTER_ID)
    load(manager, lambda _: CONFIG)
    _fill(manager, "t", 2)
    for path, reason in (("a", errno.EIO), ("b", errno.EROFS)):
        disk.fail_path(f"{path}/", reason)
    for log in list(manager.logs()):
        with pytest.raises(KafkaStorageError):
            log.append(batch(), leader_epoch=0)
    with pytest.raises(
        KafkaStorageError, match=r"failed: a \(Input.*repair the disk\), b \(Read-only.*writable.*\)"
    ):
        manager.create(TopicPartition("new", 0), TOPIC_ID, CONFIG)
    with pytest.raises(
        KafkaStorageError, match=r"can be used: a \(Input.*repair.*\), b \(Read-only.*writable"
    ):
        LogManager(["a", "b"], disk=disk, clock=StillClock(), broker_id=1).directories.open()


def test_a_failed_directory_affects_only_its_own_partitions() -> None:
    disk = SimulatedDisk()
    reported: list[str] = []
    manager = LogManager(
        ["a", "b"],
        disk=disk,
        clock=StillClock(),
        broker_id=1,
        on_offline=lambda path, _: reported.append(path),
    )
    manager.directories.open()
    manager.directories.set_cluster_id(CLUSTER_ID)
    load(manager, lambda _: CONFIG)
    _fill(manager, "t", 4)
    lost = [log for log in manager.logs() if log.parent_directory == "a"]
    disk.fail_path("a/", errno.EIO)
    with pytest.raises(KafkaStorageError):
        lost[0].append(batch(), leader_epoch=0)

    assert manager.directories.offline == {"a"} and reported == ["a"]
    for log in lost:
        assert manager.get(log.topic_partition) is None
        with pytest.raises(KafkaStorageError):
            log.read(0, bytes_max=10)
        with pytest.raises(KafkaStorageError, match="offline"):
            manager.create(log.topic_partition, TOPIC_ID, CONFIG)
    kept = list(manager.logs())
    assert len(kept) == 2
    for log in kept:
        assert log.append(batch(), leader_epoch=0).first_offset == 5
    assert [one.failure is None for one in manager.describe()] == [False, True]
    manager.close()

    # At the next start the directory is still broken: its partitions are known, and not created again elsewhere.
    disk.kill()
    manager = _open(disk, "a", "b")
    assert manager.directories.offline == {"a"}
    assert len(list(manager.logs())) == 2
    with pytest.raises(KafkaStorageError, match="log directory a failed"):
        manager.create(lost[0].topic_partition, TOPIC_ID, CONFIG)
    assert manager.create(TopicPartition("new", 0), TOPIC_ID, CONFIG).parent_directory == "b"
    manager.close()

    disk.failing_paths.clear()
    manager = _open(disk, "a", "b")
    assert len(list(manager.logs())) == 5


def test_where_logs_lie_is_written_once_for_many_of_them() -> None:
    disk = SimulatedDisk()
    manager = _open(disk, "a", "b")
    for number in range(6):
        manager.create(TopicPartition("t", number), TOPIC_ID, CONFIG)
    assert not disk.paths(PLACEMENT_FILE)
    manager.save_placement()
    assert [len(read_placement(disk, [path])["a"]) for path in ("a", "b")] == [3, 3]
    manager.delete(TopicPartition("t", 0))
    manager.delete(TopicPartition("t", 1))
    manager.save_placement()
    assert sum(map(len, read_placement(disk, ["a"]).values())) == 4

    disk.remove(f"a/{PLACEMENT_FILE}")
    manager.save_placement()
    assert not disk.exists(f"a/{PLACEMENT_FILE}"), "nothing has changed, so nothing is written"
    manager.close()


def test_no_directory_left_is_an_error_that_names_them() -> None:
    disk = SimulatedDisk()
    disk.fail_path("a", errno.EIO)
    with pytest.raises(KafkaStorageError, match="a"):
        LogManager(["a"], disk=disk, clock=StillClock()).directories.open()


def test_a_deleted_log_is_renamed_at_once_and_removed_later() -> None:
    disk, clock = SimulatedDisk(), StillClock()
    manager = _open(disk, clock=clock)
    _fill(manager, "t", 2)
    gone = manager.get(TopicPartition("t", 0))
    assert gone is not None
    manager.delete(TopicPartition("t", 0))
    assert manager.get(TopicPartition("t", 0)) is None
    with pytest.raises(KafkaStorageError, match="deleted"):
        gone.append(batch(), leader_epoch=0)
    assert [entry.name for entry in disk.entries("a") if entry.name.endswith("-delete")]
    other = manager.create(TopicPartition("t", 0), uuid.UUID(int=99), CONFIG)
    assert (other.log_end_offset, other.topic_id) == (0, uuid.UUID(int=99))
    delete_due(manager)
    assert [entry.name for entry in disk.entries("a") if entry.name.endswith("-delete")]
    clock.advance(1000)
    delete_due(manager)
    assert not [entry.name for entry in disk.entries("a") if entry.name.endswith("-delete")]
    manager.delete(TopicPartition("t", 0))
    disk.kill()
    manager = _open(disk, clock=clock)
    delete_due(manager)
    assert not [entry.name for entry in disk.entries("a") if entry.name.endswith("-delete")]
    assert len(list(manager.logs())) == 1


def test_a_stray_log_is_renamed_and_kept_over_starts(caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = SimulatedDisk(), StillClock()
    manager = _open(disk, clock=clock)
    _fill(manager, "t", 1)
    before = disk.read("a/t-0/00000000000000000000.log")
    manager.delete(TopicPartition("t", 0), is_stray=True)
    assert manager.get(TopicPartition("t", 0)) is None
    clock.advance(3600)
    delete_due(manager)
    manager.close()
    manager = _open(disk, clock=clock)
    assert not list(manager.logs())
    delete_due(manager)
    (stray,) = (entry.name for entry in disk.entries("a") if entry.name.startswith("t-0"))
    assert stray.endswith("-stray")
    assert disk.read(f"a/{stray}/00000000000000000000.log") == before
    assert f"a/{stray} has the records of a replica that the cluster does not know" in caplog.text


def test_a_log_that_cannot_be_flushed_leaves_no_clean_marker() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    _fill(manager, "t", 2)
    disk.capacity_bytes = 0
    manager.close()
    assert not disk.exists("a/.kafka_cleanshutdown")
    disk.capacity_bytes = None
    manager = _open(disk)
    assert [log.log_end_offset for log in manager.logs()] == [5, 5]


def test_foreign_names_are_left_alone() -> None:
    disk = SimulatedDisk()
    _open(disk).close()
    for name in ("__cluster_metadata-0", "t-0.abc-future", "lost+found", "t-1-stray", "no_partition"):
        disk.put(f"a/{name}/00000000000000000000.log", b"not ours")
    manager = _open(disk)
    assert not list(manager.logs())
    assert disk.read("a/lost+found/00000000000000000000.log") == b"not ours"


def _killed(disk: SimulatedDisk, *, is_clean: bool = True) -> None:
    manager = _open(disk)
    if is_clean:
        manager.directories.mark_complete()
    if not list(manager.logs()):
        _fill(manager, "t", 1)
    disk.kill()


def test_a_killed_process_has_all_that_it_wrote_while_the_machine_lives() -> None:
    disk = SimulatedDisk()
    _killed(disk)
    manager = _open(disk)
    assert manager.is_complete
    assert not manager.directories.stopped_cleanly
    assert [log.log_end_offset for log in manager.logs()] == [5]


def test_a_power_failure_is_known_until_it_is_recorded() -> None:
    disk = SimulatedDisk()
    _killed(disk)
    disk.crash()
    assert not _open(disk).is_complete
    # Killed again before the loss was reported: it is still known.
    disk.kill()
    assert not _open(disk).is_complete
    disk.kill()
    _killed(disk)
    assert _open(disk).is_complete


def test_a_clean_stop_has_all_across_a_loss_of_power() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    _fill(manager, "t", 1)
    manager.close()
    disk.crash()
    assert _open(disk).is_complete


def test_what_a_full_disk_refuses_is_not_lost() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    manager.directories.mark_complete()
    _fill(manager, "t", 2)
    disk.capacity_bytes = disk.used_bytes
    manager.close()
    assert not disk.exists("a/.kafka_cleanshutdown"), "the indexes had no room"
    assert not manager.directories.failures

    disk.kill()
    assert _open(disk).directories.offline == {"a"}, "nor have they at the next start"

    disk.kill()
    disk.capacity_bytes = None
    manager = _open(disk)
    assert manager.is_complete
    assert [log.log_end_offset for log in manager.logs()] == [5, 5]


def test_written_records_may_be_lost_where_a_sync_fails() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    manager.directories.mark_complete()
    _fill(manager, "t", 1)
    (log,) = manager.logs()
    disk.fail_call(0, errno.ENOSPC)
    with pytest.raises(KafkaStorageError):
        log.flush()
    disk.kill()
    assert not _open(disk).is_complete


def test_a_failed_creation_of_a_log_takes_its_directory_offline() -> None:
    disk = SimulatedDisk()
    reported: list[str] = []
    manager = LogManager(
        ["a"], disk=disk, clock=StillClock(), broker_id=1, on_offline=lambda path, _: reported.append(path)
    )
    manager.directories.open()
    manager.directories.set_cluster_id(CLUSTER_ID)
    load(manager, lambda _: CONFIG)
    disk.fail_path("a/", errno.EIO)
    with pytest.raises(KafkaStorageError):
        manager.create(TopicPartition("t", 0), TOPIC_ID, CONFIG)
    assert reported == ["a"]


def test_no_clean_stop_without_a_record_or_a_boot_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedDisk()
    assert not _open(disk).is_complete
    disk.kill()
    _killed(disk, is_clean=False)
    assert not _open(disk).is_complete
    disk.kill()
    monkeypatch.setattr(disk, "boot_id", lambda: "")
    _killed(disk)
    assert not _open(disk).is_complete


def test_records_that_a_scan_truncates_may_be_missing_elsewhere() -> None:
    disk = SimulatedDisk()
    _killed(disk)
    disk.flip_bit("a/t-0/00000000000000000000.log", 8 * 100)
    assert not _open(disk).is_complete


def test_a_directory_that_failed_is_not_vouched_for_after_the_restart() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    manager.directories.mark_complete()
    _fill(manager, "t", 1)
    log = manager.get(TopicPartition("t", 0))
    assert log is not None
    disk.fail_call(0, errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.append(batch(b"lost"), leader_epoch=0)
    assert manager.directories.offline == {"a"}
    disk.kill()
    assert not _open(disk).is_complete


def test_a_log_that_cannot_be_made_leaves_nothing() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(KafkaStorageError):
        manager.create(TopicPartition("t", 0), TOPIC_ID, CONFIG)
    assert not [entry.name for entry in disk.entries("a") if entry.is_directory]
    disk.capacity_bytes = None
    assert manager.create(TopicPartition("t", 0), TOPIC_ID, CONFIG).log_end_offset == 0


def _damage(disk: SimulatedDisk, *, bytes_before_end: int = 1) -> None:
    """A bit of the newest batch flips."""
    path = next(one for one in disk.paths(".log") if disk.size_bytes(one))
    disk.flip_bit(path, (disk.size_bytes(path) - bytes_before_end) * 8)


def test_what_a_start_removed_is_known_to_the_next_one() -> None:
    disk = SimulatedDisk()
    _killed(disk)
    _damage(disk)
    # A start that removes the damaged batch and then fails, before the loss was reported.
    assert not _open(disk).is_complete
    disk.kill()
    again = _open(disk)
    assert again.progress.truncated_bytes == 0
    assert not again.is_complete
    disk.kill()
    _killed(disk)
    assert _open(disk).is_complete


def test_damage_after_a_clean_stop_is_a_loss() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    manager.directories.mark_complete()
    _fill(manager, "t", 1)
    manager.close()
    # In the batch's length, which is read after a clean stop, too.
    _damage(disk, bytes_before_end=len(batch(b"4")) - 8)
    again = _open(disk)
    assert not again.is_complete
    assert again.progress.truncated_bytes == len(batch(b"4"))
    disk.kill()
    assert not _open(disk).is_complete
