from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.api.fakeapi import NAMESPACES, FakeApi, named
from support.patience import PATIENCE

from webhook.cluster.api.call import Call, Lines, fetch, refused
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ClusterError, UnreachableError


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


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b" "))), st.binary(), st.data())
def test_lines_do_not_depend_on_the_parts(lines: list[bytes], rest: bytes, data: st.DataObject) -> None:
    """However a body is cut into parts, the same lines come out; what follows the last line end is kept back."""
    body = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b" ")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)))))
    splitter = Lines()

    found = [
        line
        for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)
        for line in splitter.feed(body[start:end])
    ]

    assert found == lines
