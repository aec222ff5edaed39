from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from support.api.fakeapi import FakeApi
from support.api.times import Times
from support.service.installation import kubeconfig

from webhook.cluster.api.client import Connection, connect


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[FakeApi]:
    """A small API server, of the kind that the module names as its SERVER."""
    async with getattr(request.module, "SERVER", FakeApi)() as running:
        yield running


@pytest.fixture
async def api(server: FakeApi, tmp_path: Path) -> AsyncIterator[Connection]:
    """A connection to it, by a kubeconfig."""
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig(server.url)), encoding="utf-8")
    connection = await connect(str(file), in_cluster=False)
    yield connection
    await connection.close()


@pytest.fixture
def times() -> Times:
    """Clocks that the test moves."""
    return Times()
