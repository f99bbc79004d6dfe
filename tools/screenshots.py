"""Take the pictures of docs/page.md: light, dark, phone width, two runs, and the replay.

Use: python tools/screenshots.py [FOLDER]. Needs the extras `serve` and `dev`, and chromium.
"""

import base64
import sys
import tempfile
from io import BytesIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serve"))

from browser import Page
from PIL import Image
from servers import ROOT, serving, wait_until


def save(page: Page, file: Path) -> None:
    """Write what is on the screen as a PNG with 128 colours."""
    picture = Image.open(BytesIO(base64.b64decode(page.driver.get_screenshot_as_base64()))).convert("RGB")
    picture.quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)


def ended(page: Page, runs: int = 1) -> None:
    """Wait for the end of all runs."""
    wait_until(lambda: page.texts(".state") == ["finished"] * runs)
    page.click("h1")  # nothing is hovered


def main(folder: Path) -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "jobs.sqlite") as server:
        page = Page(Path(name))
        try:
            page.call("Emulation.setScrollbarsHidden", hidden=True)
            page.look(1280, 860)
            page.open(f"{server.url}/")
            page.find("#file").send_keys(str(ROOT / "examples" / "mixed-n116-k13.vrp"))
            page.click("#start")
            ended(page)
            save(page, folder / "page-light.png")
            page.choose("replay")
            page.wait(".where", "Step 1 of")
            page.run("const s = document.querySelector('.steps'); s.value = 24; s.dispatchEvent(new Event('input'))")
            save(page, folder / "page-replay.png")
            link = page.driver.current_url
            page.look(390, 844)
            page.open(link)
            ended(page)
            page.run("document.querySelector('.view').scrollIntoView()")
            save(page, folder / "page-phone.png")
            page.look(1280, 1080, "dark")
            page.open(f"{server.url}/")
            page.choose("generate")
            page.click("#compare")
            ended(page, 2)
            save(page, folder / "page-dark.png")
        finally:
            page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
