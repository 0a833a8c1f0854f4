"""A follower gets what it lacks: the changes since, or everything."""

from odradek.metadata.image.change_log import ChangeLog, NodeChange


def change(number: int) -> NodeChange:
    return NodeChange(f"/n/{number}", b"%d" % number, number)


def test_a_follower_hears_each_change_once() -> None:
    log = ChangeLog(3)
    log.append(map(change, range(5)))
    told = log.since(3, 2)
    assert told.changes == (change(2), change(3), change(4))
    assert (told.controller_epoch, told.next_number, told.is_snapshot, told.is_complete) == (
        3,
        5,
        False,
        True,
    )
    assert log.since(3, 5).changes == ()


def test_another_reign_an_old_number_and_a_future_one_are_told_everything() -> None:
    log = ChangeLog(3, [NodeChange("/begun", b"x")], kept_max=2)
    log.append([change(0), change(1), change(2), NodeChange("/n/1", None)])
    assert log.first_kept == 2
    for epoch, number in ((2, 4), (4, 0), (3, 1), (3, 5), (3, -1)):
        told = log.since(epoch, number)
        assert told.is_snapshot
        assert told.is_complete
        assert told.next_number == 4
        assert told.changes == (NodeChange("/begun", b"x"), change(0), change(2))
    assert not log.since(3, 2).is_snapshot


def test_a_long_way_is_told_in_parts() -> None:
    log = ChangeLog(1, per_answer_max=2)
    log.append(map(change, range(5)))
    number = 0
    heard: list[NodeChange] = []
    while True:
        told = log.since(1, number)
        heard += told.changes
        number = told.next_number
        if told.is_complete:
            break
        assert len(told.changes) == 2
    assert heard == [change(number) for number in range(5)]


def test_whoever_waits_is_woken_until_it_asks_no_more() -> None:
    log = ChangeLog(1)
    woken: list[int] = []
    end = log.subscribe(lambda: woken.append(log.next_number))
    log.append([change(0)])
    end()
    end()
    log.append([change(1)])
    assert woken == [1]
