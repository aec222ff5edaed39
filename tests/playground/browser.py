"""The playground in a headless Chromium, for tests and for the pictures of the guide."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster.polling import wait_for
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
_PATIENCE_SECONDS = 60
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--force-device-scale-factor=1",
)  # fmt: skip


@contextmanager
def playground(port: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command and the address that it prints."""
    command = [str(Path(sys.executable).parent / "cks-admission"), "playground", "--port", str(port), "--no-browser"]
    # The web framework serves otherwise where it believes to be under test.
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=usual) as process:
        try:
            assert process.stdout is not None
            printed = re.search(r"http://\S+", process.stdout.readline())
            assert printed is not None
            wait_for("the playground to listen", lambda: _listens(port))
            yield process, printed[0]
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Page:
    """The page in a browser."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM or ""
        for option in _OPTIONS:
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))

    def open(self, address: str, width: int = 1400, height: int = 1000) -> None:
        """Show an address in a window of a size."""
        self.driver.set_window_size(width, height)
        self.driver.get("about:blank")  # otherwise only the fragment of an address may change
        self.driver.get(address)

    def wait(self, condition: Callable[[], Any]) -> Any:
        """The first true result of a condition; elements that the page replaces meanwhile are looked for again."""
        patient = WebDriverWait(self.driver, _PATIENCE_SECONDS, 0.05, ignored_exceptions=[Exception])
        return patient.until(lambda _: condition())

    def answer(self, *words: str) -> str:
        """The text below the editors, as soon as it has these words."""

        def text() -> str:
            body = self.driver.find_element(By.TAG_NAME, "body").text
            return body if all(word in body for word in words) else ""

        return str(self.wait(text))

    def named(self, text: str) -> WebElement:
        """The tab or button of a name."""
        found = self.driver.find_elements(By.CSS_SELECTOR, ".q-tab, .q-btn")
        return next(one for one in found if text.lower() in f"{one.text} {one.get_attribute('aria-label')}".lower())

    def write(self, text: str) -> None:
        """Replace the text of the first editor that is shown, by keys alone."""

        def written() -> bool:
            editor = next(
                one for one in self.driver.find_elements(By.CSS_SELECTOR, ".cm-content") if one.is_displayed()
            )
            editor.send_keys(Keys.CONTROL, "a")
            editor.send_keys(Keys.CONTROL, Keys.NULL, Keys.DELETE, text)
            return True

        self.wait(written)

    def hosts(self) -> set[str]:
        """The hosts of all requests so far."""
        entries: Any = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return {url.split("/")[2] for url in sent if not url.startswith("data:")}
