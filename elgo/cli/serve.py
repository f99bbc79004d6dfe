"""`elgo serve`: an HTTP service and its page."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Annotated

import typer

from elgo.problem.errors import ElgoError

Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen at; 0.0.0.0 lets other machines in.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")]
StoreFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="SQLite file with all jobs.", show_default="in the user's data folder"),
]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        envvar="ELGO_TOKEN",
        help="Password that every request must have, but /health. Better in $ELGO_TOKEN, which other users cannot see.",
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Jobs to solve at once.", show_default="as many as cores")
]
MaxSeconds = Annotated[float, typer.Option(min=0.01, metavar="SECONDS", help="Longest time limit of a job.")]
MaxNodes = Annotated[int, typer.Option(min=3, help="Largest instance.")]
MaxQueue = Annotated[int, typer.Option(min=1, help="Jobs that may wait; others are answered with 429.")]
MaxBody = Annotated[int, typer.Option(min=1, max=1024, metavar="MB", help="Largest request.")]
Keep = Annotated[float, typer.Option(min=0.001, metavar="DAYS", help="Time after which jobs that ended are deleted.")]
Cors = Annotated[
    list[str] | None,
    typer.Option(metavar="ORIGIN", help="Let pages of another site use the service, such as https://example.org."),
]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    store: StoreFile = None,
    token: Token = None,
    workers: Workers = None,
    max_seconds: MaxSeconds = 60.0,
    max_nodes: MaxNodes = 10_001,
    max_queue: MaxQueue = 100,
    max_body: MaxBody = 16,
    keep: Keep = 30.0,
    cors: Cors = None,
) -> None:
    """Serve a page and an HTTP interface that solve instances. Jobs survive restarts. Needs elgo[serve]."""
    missing = [name for name in ("fastapi", "uvicorn", "multipart") if importlib.util.find_spec(name) is None]
    if missing:
        raise ElgoError(f"elgo serve needs {missing[0]}: pip install 'elgo[serve]'")
    if token is not None and not token.strip():
        raise ElgoError("--token is empty")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # the cores belong to the workers

    from elgo.problem.cores import available_cores
    from elgo.serve.limits import MEGABYTE, Limits
    from elgo.serve.server import default_store, run_server

    limits = Limits(max_seconds, max_nodes, max_queue, max_body * MEGABYTE, keep_days=keep)
    run_server(host, port, store or default_store(), workers or available_cores(), limits, token, cors or ())
