"""Drives headless Chromium by its DevTools protocol, and collects what goes wrong in a page."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--disable-extensions", "--hide-scrollbars", "--mute-audio"),
    *("--force-color-profile=srgb", "--remote-debugging-port=0", "--disable-dev-shm-usage"),
    # Frames without an origin belong to the page, so that their errors are its errors.
    "--disable-features=IsolateSandboxedIframes,IsolateOrigins,site-per-process",
    "--disable-site-isolation-trials",
    # Nothing outside this machine has an address.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
_SECONDS = 30.0
"""How long a page may take to do anything; a busy machine is slow."""


def chromium_path() -> str | None:
    """Return the program, if it is installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Chromium:
    """One browser; each page is a new tab in a profile of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._open = ExitStack()
        self._socket = self._connected()
        self._last = 0
        self._on_event: dict[str, Callable[[str, dict[str, Any]], None]] = {}

    def _connected(self) -> ClientConnection:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "DevTools listening on " in line:
                address = line.split("DevTools listening on ")[1].strip()
                return self._open.enter_context(
                    connect(address, max_size=None, proxy=None, compression=None)
                )
        raise RuntimeError("chromium ended before it could be used")

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result; events meanwhile go to their pages."""
        self._last += 1
        number = self._last
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._socket.send(json.dumps(message))
        while True:
            reply = cast("dict[str, Any]", json.loads(self._socket.recv(timeout=_SECONDS)))
            if reply.get("id") != number:
                self._dispatch(reply)
            elif "error" in reply:
                raise RuntimeError(f"{method}: {reply['error']}")
            else:
                return reply["result"]

    def _dispatch(self, event: dict[str, Any]) -> None:
        listener = self._on_event.get(event.get("sessionId", ""))
        if listener is not None and "method" in event:
            listener(event["method"], event["params"])

    def open(self, url: str, *, width: int = 1400, height: int = 900, dark: bool = False) -> Page:
        """Open an address in a new tab, and wait until it is loaded."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"], target["targetId"])
        self._on_event[attached["sessionId"]] = page.on_event
        page.start(url, width=width, height=height, dark=dark)
        return page

    def forget(self, session: str) -> None:
        """Stop dispatching the events of a page."""
        self._on_event.pop(session, None)

    def close(self) -> None:
        """End the browser."""
        self._open.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


class Page:
    """A tab; `problems` has console errors, policy violations, dialogs and outside requests."""

    def __init__(self, browser: Chromium, session: str, target: str) -> None:
        self.problems: list[str] = []
        self._browser = browser
        self._session = session
        self._target = target
        self._origin = ""
        self._width = 0
        self._contexts: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        if kind is None:
            assert self.problems == []

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to this page."""
        return self._browser.send(method, self._session, **params)

    def start(self, url: str, *, width: int, height: int, dark: bool) -> None:
        """Load the address, as a window of this size would."""
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.send(f"{domain}.enable")
        self.look(width=width, height=height, dark=dark)
        self.goto(url)

    def goto(self, url: str) -> None:
        """Load another address."""
        self.send("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def look(self, *, width: int, height: int, dark: bool) -> None:
        """Change the size of the window, and the colours that its owner prefers."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self._width = width
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 700,
        )

    def on_event(self, method: str, params: dict[str, Any]) -> None:
        """Keep what must not happen."""
        match method:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                text = details.get("exception", {}).get("description", details["text"])
                self.problems.append(f"exception: {text}")
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "assert"}:
                self.problems.append(f"console: {params['args']}")
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.problems.append(f"log: {params['entry']['text']}")
            case "Runtime.executionContextCreated":
                self._contexts.append(params["context"])
            case "Runtime.executionContextsCleared":
                self._contexts.clear()
            case "Page.javascriptDialogOpening":
                self.problems.append(f"dialog: {params['message']}")
            case "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith((self._origin, "data:", "about:")):
                    self.problems.append(f"request: {url}")
            case _:
                pass

    def evaluate(self, expression: str, **where: int) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        reply = self.send(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            **where,
        )
        if "exceptionDetails" in reply:
            raise AssertionError(reply["exceptionDetails"])
        return reply["result"].get("value")

    def evaluate_in_frame(self, expression: str) -> Any:
        """Return the value of an expression in the newest frame of the page."""
        return self.evaluate(expression, contextId=self._contexts[-1]["id"])

    def wait_for_in_frame(self, expression: str) -> Any:
        """Wait until an expression is true in the newest frame."""
        return self.wait_for(expression, evaluate=self.evaluate_in_frame)

    def wait_for(
        self,
        expression: str,
        seconds: float = _SECONDS,
        evaluate: Callable[[str], Any] | None = None,
    ) -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if value := (evaluate or self.evaluate)(expression):
                    return value
            except RuntimeError:  # the page is being replaced
                pass
            time.sleep(0.02)
        raise AssertionError(f"not true after {seconds:g} s: {expression}")

    def click(self, selector: str) -> None:
        """Click the middle of an element, as a person would."""
        place = self.evaluate(
            f"(() => {{const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]})()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.send("Input.insertText", text=text)

    def text(self, selector: str = "body") -> str:
        """Return the text that a person sees in an element."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def is_too_wide(self) -> bool:
        """Return whether the page must be scrolled sideways."""
        width = self.evaluate("document.documentElement.scrollWidth")
        return bool(width > self._width)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write what the window shows, or the whole page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def looks(self, shots: Path, name: str, *, height: int, whole: bool = False) -> None:
        """Take screenshots in light and dark, wide and narrow; the page must always fit."""
        for dark in (False, True):
            for width in (1400, 390):
                self.look(width=width, height=height, dark=dark)
                assert not self.is_too_wide()
                shade = "dark" if dark else "light"
                self.screenshot(shots / f"{name}-{shade}-{width}.png", whole=whole)
                background = self.evaluate("getComputedStyle(document.body).backgroundColor")
                assert (background == "rgb(20, 22, 26)") == dark
        self.look(width=1400, height=height, dark=False)

    def printed(self) -> bytes:
        """Return the page as it would be printed, as PDF."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=False)["data"])

    def close(self) -> None:
        """Close the tab."""
        self.evaluate("1")  # events that are under way arrive before its reply
        self._browser.forget(self._session)
        self._browser.send("Target.closeTarget", targetId=self._target)
