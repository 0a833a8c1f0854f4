"""A program with one consumer of a ZooKeeper group: `python -m tests.support.connector_member CONNECT GROUP TOPIC`.

It prints each message on a line of its own as soon as it has it.
"""

from __future__ import annotations

import sys

from odradek.clients import ConsumerConnector


def main(connect: str, group: str, topic: str) -> None:
    properties = {
        "zk.connect": connect,
        "groupid": group,
        "autooffset.reset": "smallest",
        "zk.sessiontimeout.ms": 3_000,
        "autocommit.interval.ms": 50,
    }
    with ConsumerConnector(properties) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        print("ready", flush=True)
        for message in stream:
            print(message.message.decode(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
