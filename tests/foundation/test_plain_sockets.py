"""A loop that was loaded without OpenSSL serves plain sockets, and a later `import ssl` gets the module."""

import subprocess
import sys
from itertools import chain

from tests.support.loops import LOOPS
from tests.tidy.checkout import ROOT

PROGRAM = """
import sys
from odradek.foundation.plain_sockets import load_event_loop

load_event_loop()
print("loaded", sorted({"ssl", "_ssl"} & set(sys.modules)))
import asyncio
from tests.support.loops import LOOPS


async def echo():
    async def answer(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello\\n")
    print("echo", await reader.readline())
    writer.close()
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    print("real", context.verify_mode.name)
    if not isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop):
        try:
            await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        except TypeError as refusal:
            print("refused", "ssl" in str(refusal))
    server.close()


for loop in LOOPS.values():
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(echo())
from asyncio import base_events

print("other names", base_events.ssl.OP_NO_COMPRESSION == __import__("ssl").OP_NO_COMPRESSION)
"""


def test_plain_sockets_work_and_ssl_is_the_real_one_afterwards() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    of_each_loop = ["echo b'hello\\n'", "real CERT_NONE"]
    of_loops = [[*of_each_loop, *(["refused True"] if name == "uvloop" else [])] for name in LOOPS]
    expected = ["loaded []", *chain.from_iterable(of_loops), "other names True"]
    assert done.stdout.splitlines() == expected


def test_a_process_that_has_ssl_keeps_it() -> None:
    program = (
        "import ssl, sys; from odradek.foundation.plain_sockets import load_event_loop; load_event_loop();"
        "import asyncio.sslproto; print(sys.modules['ssl'] is ssl is asyncio.sslproto.ssl)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "True", done.stderr
