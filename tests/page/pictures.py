"""Draw the page's pictures in docs/images, of simulated nodes with a lost and a hot card: `make page-pictures`."""

import base64
import struct
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from kits.browser import Tab, chromium
from kits.captures import ROOT
from kits.daemon import Daemon
from page.view import View

IMAGES = ROOT / "docs" / "images"
# The daemon of a simulated node with this name instead of the machine's.
COMMAND = (
    sys.executable,
    "-c",
    "import socket, sys; socket.gethostname = lambda: 'gpu-07'; from telemetry_daemon.cli import main; sys.exit(main())",
)
MAX_BYTES = 200_000


@dataclass(frozen=True)
class Picture:
    """The simulated cards of a node, and the screen that shows its page."""

    name: str
    cards: str
    width: int
    scale: float
    theme: str


PICTURES = (
    Picture("telemetry-page", "16xnvidia", 1280, 1.0, "light"),
    Picture("telemetry-page-full-node", "128xnvidia", 2560, 0.75, "dark"),
)


# Runs in a separate page: reduces the picture to 256 colours; similar colours get their mean.
_COLOURS = """async (png) => {
  const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + png)).blob());
  const { width, height } = image, context = new OffscreenCanvas(width, height).getContext('2d');
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, width, height), found = new Map(), places = new Map();
  const alike = (at) => ((data[at] >> 3) << 10) | ((data[at + 1] >> 3) << 5) | (data[at + 2] >> 3);
  for (let at = 0; at < data.length; at += 4) {
    const sum = found.get(alike(at)) ?? [0, 0, 0, 0];
    found.set(alike(at), [sum[0] + 1, sum[1] + data[at], sum[2] + data[at + 1], sum[3] + data[at + 2]]);
  }
  const most = [...found.values()].sort((a, b) => b[0] - a[0]).slice(0, 256);
  const palette = most.map(([count, ...sums]) => sums.map((sum) => Math.round(sum / count)));
  const distance = (colour, at) => colour.reduce((sum, part, i) => sum + (part - data[at + i]) ** 2, 0);
  const nearest = (at) => palette.reduce((best, one, i) => (distance(one, at) < distance(palette[best], at) ? i : best), 0);
  let pixels = '';
  for (let at = 0; at < data.length; at += 4) {
    if (!places.has(alike(at))) places.set(alike(at), nearest(at));
    pixels += String.fromCharCode(places.get(alike(at)));
  }
  return { width, height, palette: palette.flat(), pixels: btoa(pixels) };
}"""


def smaller(tab: Tab, png: bytes) -> bytes:
    """Return the picture with at most 256 colours and maximal compression."""
    found = tab.evaluate(f"({_COLOURS})({base64.b64encode(png).decode()!r})")
    width, height, pixels = found["width"], found["height"], base64.b64decode(found["pixels"])
    rows = b"".join(b"\0" + pixels[row * width : (row + 1) * width] for row in range(height))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(found["palette"])),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def draw(tab: Tab, picture: Picture, folder: Path) -> bytes:
    with Daemon(folder, command=COMMAND, arguments=("--demo", picture.cards, "--fault", "lost,hot")) as daemon:
        tab.resize(picture.width, 720, picture.scale)
        tab.prefer(color_scheme=picture.theme)
        tab.open(f"http://{daemon.address}/")
        tab.until(lambda: "over its limit" in tab.text(".troubles") and "lost" in tab.text(".troubles"), "both faults")
        for _ in range(2):  # the charts grow with the screen
            tab.resize(picture.width, tab.evaluate("document.documentElement.scrollHeight"), picture.scale)
            View(tab).await_news()
        drawn = tab.picture()
    with tab.browser.tab() as other:
        return smaller(other, drawn)


def main() -> int:
    """Draw all pictures; return 1 if one is too large to be committed."""
    large = 0
    for picture in PICTURES:
        with tempfile.TemporaryDirectory() as folder, chromium("--hide-scrollbars") as browser, browser.tab() as tab:
            drawn = draw(tab, picture, Path(folder))
        (IMAGES / f"{picture.name}.png").write_bytes(drawn)
        large += len(drawn) > MAX_BYTES
        print(f"{picture.name}.png: {len(drawn) // 1000} kB")
    return min(large, 1)


if __name__ == "__main__":
    sys.exit(main())
