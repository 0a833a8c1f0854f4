"""The start scripts of containers. A pod learns its number, node and zone only where it runs, so they are shell.

They end in `exec`, so that the server is the container's first process and gets the signal to stop.
"""

from __future__ import annotations

import shlex
from typing import Final

from odradek_operator.desired.names import (
    CONTROLLER_PORT,
    HTTP_PORT,
    INTERNAL_LISTENER,
    INTERNAL_PORT,
    PROCESSES_VARIABLE,
    REPLICATION_LISTENER,
    REPLICATION_PORT,
    Context,
)
from odradek_operator.desired.security import is_secured
from odradek_operator.desired.settings import listener_name
from odradek_operator.desired.zookeeper_access import LOGIN_FOLDER
from odradek_operator.foundation.zookeeper_login import BROKERS_FILE

SETTINGS_FOLDER: Final = "/etc/odradek"
RACK_SECONDS_MAX: Final = 60
# A pod's address goes with it, and for a moment nothing answers there. A client that connects just then waits for its
# connection timeout (30 s with librdkafka). So a stopped broker's pod stays this long: clients learn in this time from
# other brokers that the broker is gone.
LINGER_SECONDS: Final = 3

_START_BROKER: Final = f"""\
set -eu
case "$NODE_IP" in *:*) NODE_IP="[$NODE_IP]" ;; esac
. {SETTINGS_FOLDER}/addresses
if [ -z "$ADVERTISED" ]; then
  echo "broker $POD_INDEX: no address is known for it yet; the operator writes it, and this pod starts again" >&2
  exit 1
fi
left={RACK_SECONDS_MAX}
while :; do
  RACK=
  . {SETTINGS_FOLDER}/racks
  if [ -n "$RACK" ] || [ -z "$RACKS_WANTED" ] || [ "$left" -eq 0 ]; then break; fi
  left=$((left - 1))
  sleep 1
done
if [ -n "$RACKS_WANTED" ] && [ -z "$RACK" ]; then
  echo "broker $POD_INDEX: the zone of the node $NODE_NAME is not known; it starts without a rack" >&2
fi
set -- --config {SETTINGS_FOLDER}/broker.properties --id "$POD_INDEX" \\
  --set "advertised.listeners=$ADVERTISED" --admin ":{HTTP_PORT}" --linger {LINGER_SECONDS}
if [ -n "$RACK" ]; then set -- "$@" --set "broker.rack=$RACK"; fi
exec odradek broker "$@"
"""
_WITH_PROCESSES: Final = f"""\
if [ -n "${{{PROCESSES_VARIABLE}:-}}" ]; then set -- "$@" --processes "${PROCESSES_VARIABLE}"; fi
"""

# A controller has no number of its own: its pod's name, which is never used twice, gives it one.
_START_CONTROLLER: Final = f"""\
set -eu
case "$POD_IP" in *:*) POD_IP="[$POD_IP]" ;; esac
sum=$(printf %s "$POD_NAME" | cksum)
id=$((1048576 + ${{sum%% *}} % 1073741824))
exec odradek controller --config {SETTINGS_FOLDER}/controller.properties --id "$id" \\
  --advertise "CONTROLLER://$POD_IP:{CONTROLLER_PORT}" --admin ":{HTTP_PORT}"
"""


def start_broker(context: Context) -> str:
    last = 'exec odradek broker "$@"\n'
    script = _START_BROKER
    if context.processes_max > 1:
        script = script.replace(last, _WITH_PROCESSES + last)
    return _with_login(context, script, f"{SETTINGS_FOLDER}/broker.properties")


def start_controller(context: Context) -> str:
    return _with_login(context, _START_CONTROLLER, f"{SETTINGS_FOLDER}/controller.properties")


def _with_login(context: Context, script: str, settings: str) -> str:
    """The script of a pod that logs in to ZooKeeper: its settings and its login become one file, which it alone reads.

    A server takes one file of settings, and the ConfigMap is no place for a password.
    """
    if not context.zookeeper_access.logs_in:
        return script
    whole = "/tmp/server.properties"
    join = f"(umask 077; cat {settings} {LOGIN_FOLDER}/{BROKERS_FILE} > {whole})\n"
    return script.replace("set -eu\n", f"set -eu\n{join}", 1).replace(
        f"--config {settings}", f"--config {whole}"
    )


def addresses_script(context: Context) -> str:
    """Sets ADVERTISED for $POD_INDEX; empty for a broker that nothing is known of."""
    lines = ["ADVERTISED=", 'case "$POD_INDEX" in']
    lines += [
        f'{broker}) ADVERTISED="{advertised_listeners(context, broker)}" ;;' for broker in context.broker_ids
    ]
    return "\n".join([*lines, "esac", ""])


def advertised_listeners(context: Context, broker: int) -> str:
    """A broker's advertised.listeners; ${NODE_IP} stands for its node's address."""
    listeners = [f"{INTERNAL_LISTENER}://{context.broker_host(broker)}:{INTERNAL_PORT}"]
    if context.is_held and is_secured(context.spec):
        listeners = []
    for listener in () if context.is_held else context.spec.listeners:
        address = context.addresses.get(listener.name, {}).get(broker)
        # A listener without an address is left out: better that than no broker.
        if address is not None:
            listeners.append(f"{listener_name(listener.name)}://{address}")
    if is_secured(context.spec):
        listeners.append(f"{REPLICATION_LISTENER}://{context.broker_host(broker)}:{REPLICATION_PORT}")
    return ",".join(listeners)


def racks_script(context: Context) -> str:
    """Sets RACKS_WANTED, and RACK for $NODE_NAME."""
    wanted = context.spec.brokers.rack_label is not None
    lines = [f"RACKS_WANTED={'yes' if wanted else ''}"]
    if wanted:
        lines.append('case "$NODE_NAME" in')
        lines += [
            f"{shlex.quote(node)}) RACK={shlex.quote(zone)} ;;"
            for node, zone in sorted(context.zones.items())
        ]
        lines.append("esac")
    return "\n".join([*lines, ""])
