"""The files in /conf of a ZooKeeper server that the operator runs: zoo.cfg, the start script, and logging.

The folder hides what an image has there, so it must have all that a server reads. Logging is configured for both known
images. The official one reads logback.xml, and without it logs everything, DEBUG included. Debian's package has log4j,
and no logging in its class path at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from odradek_operator.desired.names import ZOOKEEPER, ZOOKEEPER_PEER_PORTS, ZOOKEEPER_PORT, Context
from odradek_operator.foundation.zookeeper_login import SERVERS_FILE
from odradek_operator.resources.zookeeper import ZookeeperServers

# A server without data waits so long for another one that serves. Then it ends, and its pod shows why.
_OTHERS_SECONDS_MAX: Final = 60
# Of one address to one server, as ZooKeeper's own default.
_CONNECTIONS_MAX: Final = 60

NO_DATA: Final = "this ZooKeeper server has no data, and no other server of its ensemble serves"
"""The last message of a server that may not begin an ensemble, and finds none."""

# A server takes its role from the newest configuration that it knows: its own, or the one that the operator has read
# from the ensemble. A server without data votes only as a founder of a new Cluster. Any other one without data begins
# as an observer, and only beside a server that serves. So such servers cannot make an ensemble of their own.
_START: Final = f"""\
set -eu
id=$((POD_INDEX + 1))
mine=/data/dynamic
mkdir -p $mine
echo $id > /data/myid
known=$(cat /conf/version)
own=$(ls $mine | sed -n 's/^zoo.cfg.dynamic.\\([0-9a-f]*\\)$/\\1/p' | awk '{{ print length, $0 }}' | sort | tail -1)
own=${{own#* }}
hosts() {{ sed -n 's/^\\(server[.][0-9]*=[^:]*\\):.*/\\1/p' "$1"; }}
hosts /conf/servers > $mine/hosts
if [ -n "$own" ] && ! hosts $mine/zoo.cfg.dynamic.$own | grep -qxFf $mine/hosts; then
  echo "the configuration $own on this volume names other servers: it was restored from elsewhere, and is left out"
  rm -f $mine/zoo.cfg.dynamic*
  own=
fi
if [ -n "$own" ] && [ $((0x$own)) -gt $((0x$known)) ]; then
  config=$mine/zoo.cfg.dynamic.$own
else
  config=/conf/members
fi
serves() {{
  bash -c 'exec 3<>/dev/tcp/$0/$1; printf isro >&3; read -r -t 2 answer <&3; [ "$answer" = rw ]' "$1" "$2" 2>/dev/null
}}
others_serve() {{
  for line in $(grep -v "^server.$id=" /conf/members); do
    host=${{line#*=}}
    serves "${{host%%:*}}" "${{line##*[;:]}}" && return 0
  done
  return 1
}}
if grep -q "^server.$id=.*:participant" $config && {{
  ls /data/version-2/snapshot.* >/dev/null 2>&1 || grep -q "^$id$" /conf/founders
}}; then
  echo "server $id votes"
  if [ $config = /conf/members ]; then
    rm -f $mine/zoo.cfg.dynamic*
    config=$mine/zoo.cfg.dynamic.$known
    cp /conf/members $config
  fi
else
  echo "server $id joins"
  waited=0
  until others_serve; do
    if [ $waited -ge ${{OTHERS_SECONDS_MAX:-{_OTHERS_SECONDS_MAX}}} ]; then
      echo "{NO_DATA}" >&2
      exit 1
    fi
    waited=$((waited + 1))
    sleep 1
  done
  # What a former member has is older than what the others have, and may be of another history.
  rm -rf /data/version-2 $mine/*
  config=$mine/zoo.cfg.dynamic.0
  grep -v "^server.$id=" /conf/members > $config
  grep "^server.$id=" /conf/servers | sed 's/:participant/:observer/' >> $config
fi
{{ cat /conf/zoo.cfg; echo "dynamicConfigFile=$config"; }} > $mine/zoo.cfg
debian=/usr/share/zookeeper/bin
if [ -d "$debian" ]; then
  PATH=$PATH:$debian
  # The last class path that java is given counts, and zkServer.sh gives its own before the flags.
  classes=/conf
  for jar in zookeeper slf4j-log4j12 log4j-1.2; do classes=$classes:/usr/share/java/$jar.jar; done
  SERVER_JVMFLAGS="${{SERVER_JVMFLAGS:-}} -Dzookeeper.jmx.log4j.disable=true -cp $classes"
  export SERVER_JVMFLAGS
fi
exec zkServer.sh start-foreground $mine/zoo.cfg
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleMembership:
    """The voters of an ensemble by id from 1, in its configuration of this `version` (hexadecimal).

    `founders` may begin it without data; only a new ensemble has any.
    """

    voters: tuple[int, ...]
    version: str = "0"
    founders: tuple[int, ...] = ()


def zookeeper_files(*, login_folder: str | None = None) -> dict[str, str]:
    """The files of /conf by name; a server that runs is restarted when one of them changes.

    A server with a `login_folder` checks access lists, and finds there the digest of the operator's password.
    """
    configuration = "cat /conf/zoo.cfg" + ("" if login_folder is None else f" {login_folder}/{SERVERS_FILE}")
    return {
        "zoo.cfg": _zoo_cfg(checks_access=login_folder is not None),
        "start": _START.replace("cat /conf/zoo.cfg", configuration),
        "logback.xml": _LOGBACK,
        "log4j.properties": _LOG4J,
    }


def membership_files(
    context: Context, servers: ZookeeperServers, membership: EnsembleMembership
) -> dict[str, str]:
    """The files from which a server learns of the others at its start; they change while servers run."""
    number_max = max([servers.size, *membership.voters])
    return {
        "servers": "".join(f"{server_line(context, number)}\n" for number in range(1, number_max + 1)),
        "members": "".join(f"{server_line(context, number)}\n" for number in membership.voters),
        "version": membership.version + "\n",
        "founders": "".join(f"{number}\n" for number in membership.founders),
    }


def server_line(context: Context, number: int) -> str:
    """A server as ZooKeeper's configuration names it; `number` is its id, from 1."""
    leader_port, election_port = ZOOKEEPER_PEER_PORTS
    host = context.dns_name(
        context.object_name("zookeepers"), pod=f"{context.object_name(ZOOKEEPER)}-{number - 1}"
    )
    return f"server.{number}={host}:{leader_port}:{election_port}:participant;{ZOOKEEPER_PORT}"


def _zoo_cfg(*, checks_access: bool) -> str:
    # A client that reaches a server may already change all its data; the NetworkPolicy limits these clients.
    connections_max, access = 0, "skipACL=yes"
    if checks_access:
        # Others are admitted: what one address takes up is bounded, and what is below a path with a quota.
        connections_max, access = _CONNECTIONS_MAX, "enforceQuota=true"
    lines = [
        "tickTime=2000",
        "initLimit=10",
        "syncLimit=5",
        "dataDir=/data",
        f"maxClientCnxns={connections_max}",
        # Sessions last as long as brokers ask, between these; a broker's is 18 s.
        "minSessionTimeout=4000",
        "maxSessionTimeout=60000",
        "autopurge.snapRetainCount=3",
        "autopurge.purgeInterval=1",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr,ruok,mntr,isro",
        # One server is an ensemble of one, so that others can join it while it runs.
        "standaloneEnabled=false",
        "reconfigEnabled=true",
        access,
        "quorumListenOnAllIPs=true",
    ]
    return "\n".join([*lines, ""])
