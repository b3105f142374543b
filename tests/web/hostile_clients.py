"""Many hostile clients: each connects, attacks, and reconnects after the server hangs up.

Usage: hostile_clients.py PORT COUNT MODE SOURCE, until standard input ends. MODE is `silent`, `half` (half of a request or of
a TLS client hello) or `drip` (a byte at a time), with the prefix `tls-` for a TLS port; or, for a plain port, `guess` (wrong
passwords), `ask` (requests without a password), `deaf` (requests without reading the answers), `stall` (the event stream
without reading it), or a path, such as `/api/v1/history`, which is requested 100 times without reading the answers.
"""

import asyncio
import base64
import contextlib
import functools
import os
import resource
import ssl
import sys

DRIP_SECONDS = 0.5
COME_AGAIN_SECONDS = 1.0
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Long: "


UNREAD = {
    "deaf": (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000, 3600.0),
    "stall": (b"GET /api/v1/events?last_event_id=0.0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 10.0),
}


@functools.cache
def greeting(mode: str) -> bytes:
    if not mode.startswith("tls-"):
        return REQUEST
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with contextlib.suppress(ssl.SSLWantReadError):  # only its first message is needed
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def request(mode: str) -> bytes:
    guess = base64.b64encode(b"prometheus:" + os.urandom(6).hex().encode())
    credentials = b"Authorization: Basic " + guess + b"\r\n" if mode == "guess" else b""
    return b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + credentials + b"\r\n"


async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mode: str) -> None:
    if mode.endswith("half"):
        writer.write(greeting(mode)[: len(greeting(mode)) // 2])
    elif mode.endswith("drip"):
        for number, byte in enumerate(greeting(mode) + b"y" * 100_000):
            writer.write(bytes((byte,)))
            await asyncio.sleep(0.0 if number < 20 else DRIP_SECONDS)
            if reader.at_eof() or writer.is_closing():
                return
    elif mode in {"guess", "ask"}:
        while not reader.at_eof():
            writer.write(request(mode))
            await reader.read(1024)
    elif mode in UNREAD or mode.startswith("/"):
        sent, seconds = UNREAD.get(mode, (f"GET {mode} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 100, 10.0))
        writer.write(sent)
        await asyncio.sleep(seconds)
        return
    await reader.read(1)


async def client(port: int, mode: str, source: str) -> None:
    while True:
        with contextlib.suppress(OSError):  # the server hangs up on such clients
            options = {"local_addr": (source, 0), "limit": 1024}
            reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
            try:
                await attack(reader, writer, mode)
            finally:
                writer.close()
        await asyncio.sleep(COME_AGAIN_SECONDS)


async def main(port: int, count: int, mode: str, source: str) -> None:
    clients = [asyncio.create_task(client(port, mode, source)) for _ in range(count)]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in clients:
        task.cancel()


if __name__ == "__main__":
    os.nice(19)  # they stand for other machines, and must not use the server's processor
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]))
