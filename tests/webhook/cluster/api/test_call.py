from __future__ import annotations

import asyncio

import pytest
from support.api.fakeapi import NAMESPACES, FakeApi, named
from support.patience import PATIENCE

from webhook.cluster.api.call import Call, fetch, refused
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ApiError, ClusterError, UnreachableError


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b'{"message": "no\\nway", "code": 403}', "(403: no way)", id="a Status, on one line"),
        pytest.param(b'{"reason": "Forbidden"}', "(403: Forbidden)", id="a Status without a message"),
        pytest.param(b"<html>\n gone </html>", "(403: <html> gone </html>)", id="not JSON"),
        pytest.param(b"", "(403)", id="nothing"),
        pytest.param(b"\xff\xfe", "(403: \ufffd\ufffd)", id="not UTF-8"),
        pytest.param(b"x" * 10_000, f"(403: {'x' * 600})", id="too much"),
    ],
)
def test_a_refusal_is_told_in_its_own_words(body: bytes, message: str) -> None:
    """Whatever the body of an error is, the message is one line of bounded length with the status."""
    error = refused("GET /x at https://a", 403, body)

    assert (str(error), error.status) == (f"the API server refused GET /x at https://a {message}", 403)


async def test_the_token_is_sent(server: FakeApi, api: Connection) -> None:
    """Requests carry the credentials of the kubeconfig and say who is asking."""
    server.put(NAMESPACES, named("one"))
    await fetch(api, Call("GET", f"{NAMESPACES}/one"))

    headers = server.seen[0].headers
    assert (headers["Authorization"], headers["User-Agent"]) == ("Bearer my-token", "cks-admission")


async def test_an_error_status_is_raised(api: Connection, server: FakeApi) -> None:
    """An answer with an error status is never mistaken for a body."""
    with pytest.raises(ApiError) as caught:
        await fetch(api, Call("GET", "/nowhere/x"))

    assert (caught.value.status, str(caught.value)) == (
        404,
        f'the API server refused GET /nowhere/x at {server.url} (404: "x" not found)',
    )


async def test_silence_ends(server: FakeApi, api: Connection) -> None:
    """An API server that does not answer is given up after the time of the call."""
    server.put(NAMESPACES, named("one"))

    with pytest.raises(UnreachableError, match=r"did not answer GET .* in time"):
        async with asyncio.timeout(PATIENCE):
            await fetch(api, Call("GET", NAMESPACES, (("watch", "true"), ("resourceVersion", "101")), silence=0.01))


async def test_lost_credentials(api: Connection) -> None:
    """Where the token cannot be read again, as when its file is gone, the error says so."""

    def renew(_configuration: object) -> None:
        raise FileNotFoundError("/var/run/token")

    api.configuration.refresh_api_key_hook = renew

    with pytest.raises(ClusterError, match=r"no credentials for GET /x at http://.*: /var/run/token"):
        await fetch(api, Call("GET", "/x"))
