"""HDFS as two processes of Hadoop: a name node and a data node, on free ports of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.support.broker_process import free_port
from tests.support.java import hdfs_classpath, java_arguments, java_environment
from tests.support.local_process import LocalProcess

_START_SECONDS_MAX: Final = 60
_SERVER: Final = "org.apache.hadoop.hdfs.server"
_READY: Final = "Adding new storage ID"
"""What the name node logs of a data node that may take blocks."""


class HdfsNode(LocalProcess):
    """A node of HDFS, whose class is `main_class`; `options` are Hadoop's."""

    def __init__(self, folder: Path, main_class: str, options: dict[str, str]) -> None:
        super().__init__(folder / f"{main_class.rpartition('.')[2]}.log")
        self._main_class = main_class
        self._options = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]

    def command(self, *arguments: str) -> list[str]:
        return java_arguments(
            self._main_class, [*self._options, *arguments], classpath=hdfs_classpath(), log_level="info"
        )

    def start(self) -> None:
        self.spawn(self.command(), env=java_environment())


class Hdfs:
    """`with running(Hdfs(folder)) as hdfs`: `hdfs.url` is its root.

    Raises JavaUnavailableError without the jars of Hadoop.
    """

    def __init__(self, folder: Path) -> None:
        self.url = f"hdfs://127.0.0.1:{free_port()}"
        options = {
            "fs.defaultFS": self.url,
            "dfs.namenode.name.dir": str(folder / "names"),
            "dfs.datanode.data.dir": str(folder / "blocks"),
            "dfs.permissions.enabled": "false",
            "dfs.replication": "1",
        }
        addresses = (
            "namenode.http-address",
            "datanode.address",
            "datanode.http.address",
            "datanode.ipc.address",
        )
        options |= {f"dfs.{name}": "127.0.0.1:0" for name in addresses}
        self.name_node = HdfsNode(folder, f"{_SERVER}.namenode.NameNode", options)
        self.data_node = HdfsNode(folder, f"{_SERVER}.datanode.DataNode", options)

    def start(self) -> None:
        formatting = self.name_node.command("-format", "-nonInteractive")
        subprocess.run(formatting, env=java_environment(), check=True, capture_output=True)
        self.name_node.start()
        self.data_node.start()
        self.name_node.await_start(lambda: _READY in self.name_node.log(), seconds_max=_START_SECONDS_MAX)

    def close(self) -> None:
        self.data_node.close()
        self.name_node.close()
