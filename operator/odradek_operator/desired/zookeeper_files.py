"""What a ZooKeeper server of ours finds in /conf: zoo.cfg, how it starts, and how it logs.

The folder covers what an image has there, so all that a server reads must be here. Logging is said for both images that
are known: the official one reads logback.xml (without it logback tells everything, DEBUG included); Debian's package
has log4j, and no logging in its class path at all.
"""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.names import ZOOKEEPER, ZOOKEEPER_PEER_PORTS, ZOOKEEPER_PORT, Context
from odradek_operator.resources.cluster import ZookeeperServers

# The last class path that java is given counts, and zkServer.sh gives its own before the flags.
_START: Final = """\
set -eu
echo $((POD_INDEX + 1)) > /data/myid
debian=/usr/share/zookeeper/bin
if [ -d "$debian" ]; then
  PATH=$PATH:$debian
  classes=/conf
  for jar in zookeeper slf4j-log4j12 log4j-1.2; do classes=$classes:/usr/share/java/$jar.jar; done
  SERVER_JVMFLAGS="${SERVER_JVMFLAGS:-} -Dzookeeper.jmx.log4j.disable=true -cp $classes"
  export SERVER_JVMFLAGS
fi
exec zkServer.sh start-foreground /conf/zoo.cfg
"""

_LOGBACK: Final = """\
<configuration>
  <appender name="CONSOLE" class="ch.qos.logback.core.ConsoleAppender">
    <encoder>
      <pattern>%d{ISO8601} %-5p [%t:%c{1}] - %m%n</pattern>
    </encoder>
  </appender>
  <root level="INFO">
    <appender-ref ref="CONSOLE"/>
  </root>
</configuration>
"""

_LOG4J: Final = """\
log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} %-5p [%t:%c{1}] - %m%n
"""


def zookeeper_files(context: Context, servers: ZookeeperServers) -> dict[str, str]:
    """All files of /conf by name."""
    return {
        "zoo.cfg": _zoo_cfg(context, servers),
        "start": _START,
        "logback.xml": _LOGBACK,
        "log4j.properties": _LOG4J,
    }


def _zoo_cfg(context: Context, servers: ZookeeperServers) -> str:
    lines = [
        "tickTime=2000",
        "initLimit=10",
        "syncLimit=5",
        "dataDir=/data",
        f"clientPort={ZOOKEEPER_PORT}",
        "maxClientCnxns=0",
        # Sessions last as long as brokers ask, between these; a broker's is 18 s.
        "minSessionTimeout=4000",
        "maxSessionTimeout=60000",
        "autopurge.snapRetainCount=3",
        "autopurge.purgeInterval=1",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr,ruok,mntr",
        f"standaloneEnabled={'true' if servers.size == 1 else 'false'}",
    ]
    if servers.size > 1:
        leader_port, election_port = ZOOKEEPER_PEER_PORTS
        lines.append("quorumListenOnAllIPs=true")
        for number in range(servers.size):
            host = context.dns(context.called("zookeepers"), pod=f"{context.called(ZOOKEEPER)}-{number}")
            lines.append(f"server.{number + 1}={host}:{leader_port}:{election_port}")
    return "\n".join([*lines, ""])
