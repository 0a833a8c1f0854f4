"""The probes of a container. A start that goes well fails none of them, so that `kubectl get events` stays clean.

A probe that asks every second fails every second until the server listens, and each failure is a Warning. So the
startup probe is one program inside of the container that waits; the kubelet begins with the other two when it ends.
The program is given here as text, because an older image does not have it.
"""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.names import Json

# A server that lives and is not ready by then has a reason, and its readiness probe shows it.
READY_WAIT_SECONDS_MAX: Final = 60

UNTIL_READY: Final = """\
import http.client, sys, time
port, ready_path, ready_seconds_max = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
def answers(path):
    connection = http.client.HTTPConnection("localhost", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
while not answers("/healthz"):
    time.sleep(0.1)
ends_at = time.monotonic() + ready_seconds_max
while not answers(ready_path) and time.monotonic() < ends_at:
    time.sleep(0.1)
"""
"""Ends when the server at a port is alive, and ready; or alive and not ready for some time. Its arguments are the port,
the path that answers readiness, and how many seconds to wait for that."""

# The port is on this machine, and what it says is no secret: its certificate need not be checked.
UNTIL_READY_BY_HTTPS: Final = UNTIL_READY.replace("import http.client,", "import http.client, ssl,").replace(
    'HTTPConnection("localhost", port, timeout=5)',
    'HTTPSConnection("localhost", port, timeout=5, context=ssl._create_unverified_context())',
)
"""The same for a port with TLS."""

# zkServer.sh needs bash, so it is there; a program that speaks TCP may not be.
_UNTIL_OPEN: Final = "until (exec 3<>/dev/tcp/localhost/$0) 2>/dev/null; do sleep 0.2; done"

# The answer has no line's end: `read` fails at its end, and has read it.
_SERVES: Final = 'exec 3<>/dev/tcp/localhost/$0; printf isro >&3; read -r -t 4 answer <&3; [ "$answer" = rw ]'


# SECONDS counts from the shell's start. A server that still waits for the others then is alive and not ready.
_OR_LATE: Final = f"[ $SECONDS -ge {READY_WAIT_SECONDS_MAX} ]"
_UNTIL_SERVES: Final = f"{_UNTIL_OPEN}; until ({_SERVES}) 2>/dev/null || {_OR_LATE}; do sleep 0.2; done"


def http_probes(
    port: int, *, ready_path: str, start_seconds_max: int, has_tls: bool = False
) -> dict[str, Json]:
    """Of a server that answers by HTTP whether it is alive (/healthz) and ready."""
    program = UNTIL_READY_BY_HTTPS if has_tls else UNTIL_READY
    waits = ["python3", "-c", program, str(port), ready_path, str(READY_WAIT_SECONDS_MAX)]
    where: Json = {"port": port, **({"scheme": "HTTPS"} if has_tls else {})}
    return _probes(
        waits,
        {"httpGet": {"path": "/healthz", **where}},
        {"httpGet": {"path": ready_path, **where}},
        start_seconds_max=start_seconds_max,
    )


def zookeeper_probes(port: int, *, start_seconds_max: int) -> dict[str, Json]:
    """Of a ZooKeeper server: alive when its port is open, ready when it serves writes (`isro` answers `rw`).

    A server opens its port before it has found a leader. A server that is ready by its port alone may not serve.
    """
    probes = _probes(
        ["bash", "-c", _UNTIL_SERVES, str(port)],
        {"tcpSocket": {"port": port}},
        {"exec": {"command": ["bash", "-c", _SERVES, str(port)]}},
        start_seconds_max=start_seconds_max,
    )
    probes["readinessProbe"] |= {"periodSeconds": 2, "failureThreshold": 3}
    return probes


def _probes(waits: list[str], alive: Json, ready: Json, *, start_seconds_max: int) -> dict[str, Json]:
    return {
        "startupProbe": {
            "exec": {"command": waits},
            "periodSeconds": 1,
            "timeoutSeconds": start_seconds_max,
            "failureThreshold": 1,
        },
        "livenessProbe": {**alive, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**ready, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 5},
    }
