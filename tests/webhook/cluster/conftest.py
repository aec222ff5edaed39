from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from support.api.fakeapi import FakeApi
from support.api.times import Times

from webhook.cluster.api.client import Connection, connect


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    """A small API server."""
    async with FakeApi() as running:
        yield running


@pytest.fixture
async def api(server: FakeApi, tmp_path: Path) -> AsyncIterator[Connection]:
    """A connection to it, by a kubeconfig."""
    kubeconfig = tmp_path / "kubeconfig"
    config = {
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
        "clusters": [{"name": "fake", "cluster": {"server": server.url}}],
        "users": [{"name": "me", "user": {"token": "my-token"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    connection = await connect(str(kubeconfig), in_cluster=False)
    yield connection
    await connection.close()


@pytest.fixture
def times() -> Times:
    """Clocks that the test moves."""
    return Times()
