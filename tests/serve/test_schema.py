"""Requests made from the OpenAPI document, well-formed and not: none may break the server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import serving

CASES_PER_ENDPOINT = 500  # in each phase; more than 5,000 in all
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.slow
def test_no_request_breaks_the_server(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs.sqlite", "--max-seconds", 0.1, "--max-queue", 1_000_000) as server:
        command = (
            f"run {server.url}/openapi.json --checks {CHECKS} --phases examples,coverage,fuzzing,stateful --seed 1"
        )
        options = f"-n {CASES_PER_ENDPOINT} --request-timeout 120 --no-shrink --suppress-health-check all"
        ended = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", *command.split(), *options.split()],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"NO_COLOR": "1"},
        )
        counts = re.findall(r'elgo_responses_total\{status="(\d+)"\} (\S+)', server.client().get("/metrics").text)
    by_status = {int(status): int(float(count)) for status, count in counts}
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    assert sum(by_status.values()) >= 5000, by_status
    assert not [status for status in by_status if status >= 500], by_status
    assert by_status.keys() >= {200, 202, 404, 422}
