"""Chromium, to look at the page of the service."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from servers import wait_until

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
TEXTS = (
    "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).map(e => e.innerText.trim())"
)


class Page:
    """A page in Chromium, by CSS selectors."""

    def __init__(self, folder: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM or ""
        for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.downloads = folder / "downloads"
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        self.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])

    def call(self, command: str, **arguments: object) -> Any:
        """Send a command of the Chrome DevTools Protocol."""
        return self.driver.execute_cdp_cmd(command, arguments)

    def look(self, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        """Set the size of the window, and light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Load a page anew, even if only the part after # differs, and forget what was logged."""
        self.driver.get("about:blank")
        self.log_entries("browser")
        self.log_entries("performance")
        self.driver.get(address)

    def find(self, selector: str) -> WebElement:
        """Return the first element."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list[WebElement]:
        """Return all elements."""
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that are shown, at one moment."""
        return list(self.run(TEXTS, selector))

    def text(self, selector: str) -> str:
        """Return the text of the first element that is shown, "" if there is none."""
        return next(iter(self.texts(selector)), "")

    def link(self, selector: str) -> str:
        """Return where the first element that is a link leads to, "" if there is none."""
        return str(self.run("return document.querySelector(arguments[0])?.href ?? ''", selector))

    def click(self, selector: str) -> None:
        """Click the first element; the next one if the page takes it away meanwhile."""
        from selenium.common.exceptions import StaleElementReferenceException

        def clicked() -> bool:
            try:
                self.find(selector).click()
            except StaleElementReferenceException:
                return False
            return True

        wait_until(clicked)

    def choose(self, value: str) -> None:
        """Choose a radio button, by the label around it."""
        self.driver.execute_script(
            "arguments[0].closest('label').click()", self.find(f"input[type=radio][value={value}]")
        )

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def run(self, script: str, *arguments: object) -> Any:
        """Return the value of a script."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, selector: str, text: str = "") -> None:
        """Wait for an element that is shown and contains the text."""
        wait_until(lambda: any(text in found for found in self.texts(selector)))

    def log_entries(self, kind: str) -> list[dict[str, Any]]:
        """Return what was logged since the last call: browser or performance."""
        return list(self.driver.get_log(kind))

    def requested_hosts(self) -> set[str]:
        """Return the hosts of all requests since the page was opened."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log_entries("performance")]
        urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return {urlsplit(url).netloc for url in urls if url.startswith(("http", "ws"))}

    def errors(self) -> list[str]:
        """Return warnings and errors of the console since the page was opened."""
        return [entry["message"] for entry in self.log_entries("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def downloaded(self) -> Path:
        """Return the file that is downloaded next."""

        def complete() -> list[Path]:
            return [file for file in self.downloads.glob("*") if file.suffix not in (".crdownload", ".tmp")]

        file: Path = wait_until(complete)[0]
        return file

    def close(self) -> None:
        """End Chromium."""
        self.driver.quit()
