"""A headless Chromium, driven by its DevTools protocol."""

import base64
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 60.0
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r")}


class Browser:
    """One tab. Raises AssertionError for what the browser refuses."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.send("Page.enable")

    def send(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": values}))
        while True:
            answer = json.loads(self._socket.recv(timeout=SECONDS))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def open(
        self, url: str, width: int, *, dark: bool = False, media: str = "", height: int = 900
    ) -> None:
        """Open a page in a window of this width."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.send("Page.navigate", url="about:blank")
        self._wait("location.href == 'about:blank'")
        self.send("Page.navigate", url=url)
        self._wait("location.href != 'about:blank' && document.readyState == 'complete'")

    def _wait(self, condition: str) -> None:
        end = time.monotonic() + SECONDS
        while not self.run(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and release it."""
        code, text = _KEYS[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, text=text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def take_picture(self, path: Path, height: int) -> None:
        """Write the top of the page as a PNG."""
        size = {"width": self.run("innerWidth"), "height": height}
        place = {"x": 0, "y": 0, "scale": 1, **size}
        found = self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=place
        )
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with its profile in `folder`, which it may fill; end it afterwards."""
    assert CHROMIUM
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    place = (f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank")
    with subprocess.Popen(
        [CHROMIUM, *flags, *place], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            with connect(_find_tab(process), max_size=None, open_timeout=SECONDS) as socket:
                yield Browser(socket)
        finally:
            process.kill()


def _find_tab(process: "subprocess.Popen[str]") -> str:
    assert process.stderr
    for line in process.stderr:
        if found := re.search(r"listening on ws://([^/]+)/", line):
            tabs = httpx.get(f"http://{found[1]}/json", timeout=SECONDS).json()
            url: str = next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"]
            return url
    raise AssertionError("Chromium did not start")
