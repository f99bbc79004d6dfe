"""Fill stores with labelled instances: `python -m elgo.train.labels make STORE ...`."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, fields
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

from elgo.problem.files import atomic_write
from elgo.train.label_store import LabelStore
from elgo.train.label_stream import LabelStream, parse_sizes
from elgo.train.labelling import Labelled

FLUSH_SECONDS = 60.0  # between writes; kill -9 loses what was labelled since the last one
SHARD_LABELS = 256


class _Stop:
    """A context in which SIGTERM and SIGINT only set a flag, so that finished labels can be written first."""

    def __enter__(self) -> _Stop:
        self.asked = False
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    """Leave it to the parent when a worker stops."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_order(stream: LabelStream, start: int, workers: int) -> Generator[Labelled, None, None]:
    """Yield the labels start, start + 1, ... in order, made by `workers` processes, or by this one if that is 1."""
    if workers == 1:
        index = start
        while True:
            yield stream.labelled(index)
            index += 1
    with ProcessPoolExecutor(workers, get_context("spawn"), _ignore_signals) as pool:
        ahead: deque[Future[Labelled]] = deque()
        try:
            for index in range(start, 2**62):
                ahead.append(pool.submit(stream.labelled, index))
                if len(ahead) > 4 * workers:
                    yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def _claim(store: LabelStore, stream: LabelStream) -> None:
    """Record which stream a store holds, or raise ValueError if it holds another: a store must not mix two.

    Fields that an older version did not record have their default values.
    """
    store.folder.mkdir(parents=True, exist_ok=True)
    path, text = store.folder / "stream.json", json.dumps(asdict(stream))
    if not path.exists():
        atomic_write(path, text)
        return
    defaults = {field.name: field.default for field in fields(LabelStream)}
    if defaults | json.loads(path.read_text()) != json.loads(text):
        raise ValueError(f"{store.folder} holds the stream {path.read_text()}, not {text}")


def make_labels(
    store: LabelStore,
    stream: LabelStream,
    count: int | None = None,
    minutes: float | None = None,
    workers: int = 1,
    report: Callable[[str], None] = lambda line: None,
) -> int:
    """Fill the store with the stream up to `count` labels or for some minutes; return how many it holds now.

    It continues where the store ends. SIGTERM and SIGINT stop it after the current label and lose nothing; kill -9
    loses at most the last minute. SIGSTOP and SIGCONT pause it, since limits for CVRP are CPU time.
    """
    _claim(store, stream)
    started = flushed = time.monotonic()
    held = first = len(store)
    fresh: list[Labelled] = []
    with _Stop() as stop:
        source = _in_order(stream, held, workers)
        while not stop.asked and (count is None or held + len(fresh) < count):
            if minutes is not None and time.monotonic() - started > 60 * minutes:
                break
            fresh.append(next(source))
            if len(fresh) >= SHARD_LABELS or time.monotonic() - flushed > FLUSH_SECONDS:
                store.add(fresh)
                held += len(fresh)
                fresh, flushed = [], time.monotonic()
                pace = (held - first) / (flushed - started) * 60
                report(f"{store.folder.name}: {held} labels, {pace:.1f} per minute")
        store.add(fresh)  # before the pool ends, in case that is not waited for
        held += len(fresh)
        source.close()
    report(f"{store.folder.name}: {held} labels, {'stopped' if stop.asked else 'done'}")
    return held


def _main() -> None:
    import typer

    app = typer.Typer(add_completion=False)

    @app.callback()
    def about() -> None:
        """Near-optimal solutions to imitate, kept in stores on disk."""

    def line(text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, flush=True)

    @app.command()
    def make(
        store: Path,
        problem: str = typer.Option(..., help="tsp or cvrp"),
        sizes: str = typer.Option("50-1000,100-500", help="N: 100,200 or ranges, log-uniform within"),
        distribution: str = typer.Option("mixed", help="see elgo.problem.generate"),
        count: int | None = typer.Option(None, help="stop when the store holds this many"),
        minutes: float | None = typer.Option(None, help="stop after this long"),
        seed: int = typer.Option(0),
        workers: int = typer.Option(1, min=1),
    ) -> None:
        """Fill STORE with labelled instances; continues where it ends, until the limits or SIGTERM."""
        stream = LabelStream(problem, parse_sizes(sizes), distribution, seed)
        make_labels(LabelStore(store), stream, count, minutes, workers, line)

    try:
        app()
    except (ValueError, ImportError, RuntimeError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    _main()
