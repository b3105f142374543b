"""Headless Chromium, controlled over the two pipes of its protocol: open pages, read, click and type."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import psutil

from kits.waiting import PATIENCE_SECONDS

_FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-proxy-server", "--disable-gpu"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-background-timer-throttling", "--disable-renderer-backgrounding"),
    # No request leaves loopback.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
# Chromium reads commands from descriptor 3 and answers on 4. A shell moves our descriptors there; they are above 9.
_PIPES_IN_PLACE = 'exec "$@" 3<&{reads} 4>&{writes}'
_MODIFIERS = {"Alt": 1, "Control": 2, "Shift": 8}
# Keys that type nothing, and what Enter and a blank type: names and codes as in the DOM.
_KEYS: Mapping[str, tuple[int, str]] = {
    "Backspace": (8, ""),
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    " ": (32, " "),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "End": (35, ""),
    "Home": (36, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}


class BrowserError(AssertionError):
    """An error of the browser, or an exception of a page's script."""


class Browser:
    def __init__(self, process: subprocess.Popen[bytes], writes: int, reads: int) -> None:
        self.process = process
        self._writes, self._reads = writes, reads
        self._number = 0
        self._received = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._tabs: dict[str, Tab] = {}

    def call(self, method: str, session: str = "", **parameters: object) -> Any:
        """Send a command and return its result; pass events that arrive meanwhile to their tabs."""
        number = self.send(method, session, **parameters)
        end = time.monotonic() + PATIENCE_SECONDS
        while number not in self._answers:
            assert time.monotonic() < end, f"the browser did not answer {method}"
            self.listen(1.0)
        answer = self._answers[number]
        self._answers.clear()
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def send(self, method: str, session: str = "", **parameters: object) -> int:
        """Send a command without waiting for the answer; return its number."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(self._writes, json.dumps({**message, "sessionId": session} if session else message).encode() + b"\0")
        return self._number

    def listen(self, seconds: float) -> None:
        """Process the messages that arrive within this time."""
        if not select.select([self._reads], [], [], seconds)[0]:
            return
        piece = os.read(self._reads, 1 << 20)
        assert piece, f"Chromium has ended with status {self.process.wait()}"
        *messages, self._received = (self._received + piece).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            elif tab := self._tabs.get(message.get("sessionId", "")):
                tab.on_event(message["method"], message["params"])

    @contextlib.contextmanager
    def tab(self, width: int = 1280, height: int = 800) -> Iterator[Tab]:
        """Open an empty page with its own cookies, storage and passwords."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context, newWindow=True)
        session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        # Measure CPU time: elapsed time depends on how busy the machine is.
        tab.call("Performance.enable", timeDomain="threadTicks")
        tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
        tab.resize(width, height)
        try:
            yield tab
        finally:
            del self._tabs[session]
            self.call("Target.disposeBrowserContext", browserContextId=context)


@contextlib.contextmanager
def chromium(*more_flags: str) -> Iterator[Browser]:
    flags = [*_FLAGS, *more_flags, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    ours, theirs = [], []
    for end, other in (os.pipe(), reversed(os.pipe())):
        theirs.append(fcntl.fcntl(end, fcntl.F_DUPFD, 10))
        ours.append(other)
        os.close(end)
    # What Chromium started may still write into its profile while that is removed.
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        shell = ["bash", "-c", _PIPES_IN_PLACE.format(reads=theirs[0], writes=theirs[1]), "bash"]
        process = subprocess.Popen(
            [*shell, "chromium", *flags, f"--user-data-dir={profile}"],
            pass_fds=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        for descriptor in theirs:
            os.close(descriptor)
        browser = Browser(process, *ours)
        try:
            yield browser
        finally:
            _end(browser)
            for descriptor in ours:
                os.close(descriptor)


def _end(browser: Browser) -> None:
    """End Chromium with all its processes: ask first, then kill."""
    family = [*psutil.Process(browser.process.pid).children(recursive=True)]
    with contextlib.suppress(AssertionError, OSError):  # it may have ended, or end before it has answered
        browser.call("Browser.close")
    _, left = psutil.wait_procs(family, timeout=5)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended by itself
            process.kill()
    browser.process.kill()
    browser.process.wait()


# A test's daemon may end before its page is closed, and its event stream with it.
_STREAM_ENDED = r"net::ERR_INCOMPLETE_CHUNKED_ENCODING .*/api/v1/events"


@dataclass
class Tab:
    """A page in the browser; messages that match `forgiven` are not failures."""

    browser: Browser
    session: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    navigations: list[str] = field(default_factory=list)
    loads: int = 0
    credentials: Mapping[str, str] = field(default_factory=dict)
    forgiven: str = "$^"

    def call(self, method: str, **parameters: object) -> Any:
        return self.browser.call(method, self.session, **parameters)

    def on_event(self, method: str, event: Mapping[str, Any]) -> None:
        if complain := _COMPLAINTS.get(method):
            self.complaints += complain(event)
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Page.frameNavigated":
            self.navigations.append(event["frame"]["url"])
        elif method == "Page.loadEventFired":
            self.loads += 1
        elif method == "Fetch.requestPaused":
            self.browser.send("Fetch.continueRequest", self.session, requestId=event["requestId"])
        elif method == "Fetch.authRequired":
            answer = {"authChallengeResponse": {"response": "ProvideCredentials", **self.credentials}}
            self.browser.send("Fetch.continueWithAuth", self.session, requestId=event["requestId"], **answer)

    def unforgiven(self) -> list[str]:
        """Return the complaints that `forgiven` does not match."""
        forgiven = f"{self.forgiven}|{_STREAM_ENDED}"
        return [complaint for complaint in self.complaints if not re.search(forgiven, complaint)]

    def open(self, url: str) -> None:
        before = self.loads
        failed = self.call("Page.navigate", url=url).get("errorText")
        assert not failed, f"{url}: {failed}"
        self._await_load(before)

    def reload(self) -> None:
        before = self.loads
        self.call("Page.reload")
        self._await_load(before)

    def _await_load(self, before: int) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while self.loads == before:
            assert time.monotonic() < end, "the page did not load"
            self.browser.listen(0.2)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; await a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(_thrown(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, condition: str | Callable[[], Any], what: str = "", patience: float = PATIENCE_SECONDS) -> Any:
        """Wait until a JavaScript expression or a function is true, and return its value; a failure shows the page."""
        ask = condition if callable(condition) else lambda: self._value_unless_reloading(condition)
        end = time.monotonic() + patience
        while not (given := ask()):
            assert time.monotonic() < end, f"did not happen: {what or condition}\n{self.text()[:3000]}"
            self.browser.listen(0.05)
        return given

    def _value_unless_reloading(self, expression: str) -> Any:
        try:
            return self.evaluate(expression)
        except BrowserError as error:
            if "navigated" not in str(error):
                raise
            return None

    def text(self, selector: str = "body") -> str:
        """Return the visible text of an element; empty if there is no such element."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def count(self, selector: str) -> int:
        return int(self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def prefer(self, **features: str) -> None:
        """Set preferences of the user: `color_scheme="dark"`, `reduced_motion="reduce"`, `forced_colors="active"`."""
        named = {"forced_colors": "forced-colors"}
        chosen = [
            {"name": named.get(name, f"prefers-{name.replace('_', '-')}"), "value": value}
            for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", features=chosen)

    def log_in(self, user: str, password: str) -> None:
        """Answer password requests with this name and password, and accept any certificate."""
        self.credentials = {"username": user, "password": password}
        self.call("Security.setIgnoreCertificateErrors", ignore=True)
        self.call("Fetch.enable", handleAuthRequests=True)

    def turn_scripts_off(self) -> None:
        self.call("Emulation.setScriptExecutionDisabled", value=True)

    def press(self, key: str, *modifiers: str) -> None:
        code, text = _KEYS.get(key, (ord(key[0].upper()), key))
        parameters = {
            "key": key,
            "code": key if len(key) > 1 else {" ": "Space"}.get(key, f"Key{key.upper()}"),
            "windowsVirtualKeyCode": code,
            "modifiers": sum(_MODIFIERS[key] for key in modifiers),
        }
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **parameters, **down)
        self.call("Input.dispatchKeyEvent", **parameters, type="keyUp")

    def type(self, text: str) -> None:
        for character in text:
            self.press(character)

    def click(self, selector: str) -> None:
        """Scroll an element into view and click its middle."""
        found = self.evaluate(
            f"(e => {{ if (!e) return; e.scrollIntoView({{block: 'nearest'}}); const r = e.getBoundingClientRect();"
            f" return [r.x + r.width / 2, r.y + r.height / 2]; }})(document.querySelector({json.dumps(selector)}))"
        )
        assert found, f"there is no {selector} to click"
        self.move_mouse(*found)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=found[0], y=found[1], button="left", clickCount=1)

    def move_mouse(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def busy_seconds(self) -> float:
        """Return the CPU time of the page's process: scripts, styles, layout, painting."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return float(next(item["value"] for item in metrics if item["name"] == "TaskDuration"))


def _thrown(details: Mapping[str, Any]) -> str:
    """Return the text of a script's exception, with its position."""
    return str(details.get("exception", {}).get("description") or details["text"])


def _written(event: Mapping[str, Any]) -> list[str]:
    """Return what a script wrote to the console as a warning or an error."""
    words = (str(argument.get("value", argument.get("description"))) for argument in event["args"])
    return [" ".join(words)] if event["type"] in ("error", "warning", "assert") else []


def _logged(event: Mapping[str, Any]) -> list[str]:
    """Return an error of the browser itself: a refused resource, a failed request, a violated policy."""
    entry = event["entry"]
    return [f"{entry['text']} ({entry.get('url', '')})"] if entry["level"] in ("error", "warning") else []


_COMPLAINTS: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "Runtime.consoleAPICalled": _written,
    "Runtime.exceptionThrown": lambda event: [_thrown(event["exceptionDetails"])],
    "Log.entryAdded": _logged,
}
