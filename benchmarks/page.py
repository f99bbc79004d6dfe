"""Print frame times of the page while a reader pans and zooms 10,000 stops in Chromium.

Use: python benchmarks/page.py [--stops 10000] [--seconds 5]. Needs the extras `serve` and `dev`, and chromium.
Chromium runs without a screen and without a GPU, so a reader's machine is faster. A frame is what passes between two
calls of requestAnimationFrame: 16.7 ms if nothing is late.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serve"))

from browser import Page
from servers import serving

RECORD = """
window.frames_ = [];
let last = performance.now();
(function frame(now) {
  window.frames_.push(now - last);
  last = now;
  window.request_ = requestAnimationFrame(frame);
})(last);
"""


def pan(page: Page, seconds: float) -> list[float]:
    """Return the frame times in ms while the plane is dragged around its middle."""
    box = page.run(
        "const b = document.querySelector('.plan').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]"
    )
    x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
    page.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    page.run(RECORD)
    end, step = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        step += 1
        shift = 200 * (abs(step % 80 - 40) / 20 - 1)  # from -200 to 200 pixels and back
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + shift, y=y + shift / 2, button="left", buttons=1)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left")
    return frames(page)


def zoom(page: Page, seconds: float) -> list[float]:
    """Return the frame times in ms while the wheel zooms in and out."""
    box = page.run(
        "const b = document.querySelector('.plan').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]"
    )
    place = {"x": box[0] + box[2] / 2, "y": box[1] + box[3] / 2}
    page.run(RECORD)
    end, step = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        step += 1
        page.call(
            "Input.dispatchMouseEvent", type="mouseWheel", **place, deltaX=0, deltaY=-60 if step % 20 < 10 else 60
        )
        time.sleep(0.1)
    return frames(page)


def frames(page: Page) -> list[float]:
    """End the recording and return the frame times in ms."""
    times: list[float] = page.run("cancelAnimationFrame(window.request_); return window.frames_.slice(2)")
    return times


def show(what: str, times: list[float]) -> None:
    """Print one line."""
    ordered = sorted(times)
    late = ordered[int(0.95 * len(ordered))]
    print(
        f"{what}: {len(times)} frames, median {statistics.median(times):.1f} ms, "
        f"95 % {late:.1f} ms, longest {ordered[-1]:.1f} ms"
    )


def main(stops: int, seconds: float) -> None:
    """Solve an instance with so many stops, then move its routes."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "jobs.sqlite", "--max-nodes", stops + 1) as server:
        page = Page(Path(name))
        try:
            page.look()
            page.open(f"{server.url}/")
            page.choose("generate")
            page.fill("#generate-size", str(stops))
            page.click("#start")
            page.wait(".state", "finished")
            show(f"panning {stops} stops", pan(page, seconds))
            show(f"zooming {stops} stops", zoom(page, seconds))
        finally:
            page.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stops", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    main(**vars(parser.parse_args()))
