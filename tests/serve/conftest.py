"""A server that the tests of endpoints share."""

from collections.abc import Iterator

import httpx
import pytest
from servers import ServerProcess, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with its defaults."""
    with serving(tmp_path_factory.mktemp("serve") / "jobs.sqlite", "--max-body", 2, "--max-nodes", 2000) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[httpx.Client]:
    """A client of the shared server."""
    with server.client() as client:
        yield client
