#!/usr/bin/env python3
"""Opens a page of `hopeval report` in a headless Chromium, and says what a reader would stumble over.

Why: a page may be well-formed and still overflow a phone, load something, or be closed to a screen reader.

What: the page is opened from `file://` at 360, 900 and 1,600 pixels, in light and in dark, with every `<details>` open
and each kind of cost chosen. Findings are: a message on the console, a request for anything but the page, a page wider
than its window, a dialog, and (with --axe) serious and critical violations of axe-core. Chromium is driven through its
pipe, so only the standard library is used.

    python3 ops/report/browser.py report.html --axe axe.min.js --screenshots DIR --section cost

axe.min.js is in the npm package axe-core (`npm pack axe-core`). Exits with 1 if there is a finding, 2 if it could not
look.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS = (360, 900, 1600)
THEMES = ("light", "dark")

OPEN_ALL = "document.querySelectorAll('details').forEach(part => { part.open = true })"
CHOICES = "Array.from(document.querySelectorAll('input[type=radio]')).map(input => input.id)"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Browser:
    """A Chromium behind its debugging pipe: it reads from descriptor 3 and writes to 4."""

    def __init__(self, binary: str, profile: str):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        options = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command = ["bash", "-c", script, "bash", binary, *options, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._number = 0
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _read(self) -> dict:
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 20)
            if not more:
                raise OSError("Chromium closed its pipe")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method: str, **parameters) -> dict:
        """Sends a command and waits for its answer; events on the way are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event: str) -> None:
        while not any(known.get("method") == event for known in self.events):
            self.events.append(self._read())

    def value(self, expression: str):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise OSError(result["exceptionDetails"]["text"])
        return result["result"].get("value")

    def close(self) -> None:
        self.session = None
        self.call("Browser.close")
        self.process.wait(timeout=20)


def stumbles(events: list[dict], page: str) -> list[str]:
    """What the events of a page say against it."""
    found = []
    for event in events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            found.append(f"console: {parameters['type']} {parameters['args']}")
        elif method == "Runtime.exceptionThrown":
            found.append(f"exception: {parameters['exceptionDetails']['text']}")
        elif method == "Log.entryAdded":
            found.append(f"log: {parameters['entry']['level']} {parameters['entry']['text']}")
        elif method == "Page.javascriptDialogOpening":
            found.append(f"dialog: {parameters['message']}")
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if url != page and not url.startswith("data:,"):
                found.append(f"request: {url}")
    return found


def take_picture(browser: Browser, section: str, to: Path) -> None:
    """Writes what a reader sees who has chosen a section."""
    browser.value(f"document.getElementById({json.dumps(section)}).scrollIntoView()")
    picture = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)
    to.write_bytes(base64.b64decode(picture["data"]))


def look(browser: Browser, page: str, width: int, theme: str, axe: str | None, pictures: dict[str, Path]) -> list[str]:
    """The findings of one width and theme; `pictures` has folders by section."""
    browser.events.clear()
    scale = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.call("Emulation.setDeviceMetricsOverride", **scale)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.call("Page.navigate", url=page)
    browser.wait_for("Page.loadEventFired")
    for section, folder in pictures.items():
        take_picture(browser, section, folder / f"{theme}-{width}.png")
    found = []
    browser.value(OPEN_ALL)
    for choice in browser.value(CHOICES) or [None]:
        if choice:
            browser.value(f"document.getElementById({json.dumps(choice)}).click()")
        beyond = browser.value(OVERFLOW)
        if beyond > 0:
            found.append(f"{beyond} pixels wider than the window{f' with {choice}' if choice else ''}")
    # Before axe-core: its own look at style sheets may ask for them.
    found += stumbles(browser.events, page)
    if axe:
        browser.value(axe)
        run = "axe.run(document, {resultTypes: ['violations']}).then(result => JSON.stringify(result.violations.map("
        run += "rule => [rule.impact, rule.id, rule.nodes.length, rule.nodes[0].html.slice(0, 160)])))"
        for impact, rule, nodes, first in json.loads(browser.value(run)):
            line = f"axe {impact}: {rule}, {nodes} times, first {first}"
            if impact in ("serious", "critical"):
                found.append(line)
            else:
                print(f"{width} {theme}: {line}")
    return [f"{width} {theme}: {line}" for line in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--axe", type=Path, help="axe.min.js")
    parser.add_argument("--screenshots", type=Path, metavar="DIR")
    parser.add_argument("--section", default="setup", metavar="ID", help="the section on the screenshots")
    arguments = parser.parse_args()
    pictures = {arguments.section: arguments.screenshots} if arguments.screenshots else {}
    for folder in pictures.values():
        folder.mkdir(parents=True, exist_ok=True)
    axe = arguments.axe.read_text(encoding="utf-8") if arguments.axe else None
    page = arguments.page.resolve().as_uri()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        try:
            browser = Browser(arguments.chromium, profile)
        except OSError as error:
            print(f"{arguments.chromium}: {error}", file=sys.stderr)
            return 2
        found = []
        for width in WIDTHS:
            for theme in THEMES:
                found += look(browser, page, width, theme, axe, pictures)
        browser.close()
    for line in found:
        print(line)
    print(f"{len(found)} findings at {len(WIDTHS) * len(THEMES)} sizes and themes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
