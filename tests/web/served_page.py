"""A server process with a constant page of 200 kB and the usual limit of open files.

Usage: served_page.py CONFIG_FILE SOFT_LIMIT HARD_LIMIT. It prints its address, and ends cleanly at SIGTERM.
"""

import asyncio
import contextlib
import resource
import signal
import sys

from telemetry_daemon.web.messages import Request, Response
from telemetry_daemon.web.server.web_server import WebServer

LINE = b'accelerator_temperature_celsius{vendor="nvidia",device="0",id="GPU-1",model="H",sensor="core"} 41.0\n'
PAGE = LINE * (200_000 // len(LINE))


def site(request: Request) -> Response:
    return Response(200, (PAGE,), "text/plain; version=0.0.4; charset=utf-8")


async def main(config_file: str) -> None:
    server = WebServer(site, ("127.0.0.1:0",), config_file)
    await server.start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(server.close()))
    sys.stdout.write(f"{server.addresses[0]}\n")
    sys.stdout.flush()
    with contextlib.suppress(asyncio.CancelledError):  # cancelling it is how it ends
        await server.serve_forever()


if __name__ == "__main__":
    soft, hard = int(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    asyncio.run(main(sys.argv[1]))
