from __future__ import annotations

import asyncio
import base64
import gc
import inspect
import json
import pkgutil
import subprocess
import sys
import threading
import warnings
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.api.fakeapi import NAMESPACES, FakeApi, named
from support.patience import PATIENCE

import webhook.cluster
from certs.material import new_authority
from certs.serving import ServingContext
from webhook.cluster.api.call import Call, Lines, fetch, opened, refused
from webhook.cluster.api.client import Connection, connect
from webhook.cluster.api.errors import ClusterError, UnreachableError

URL = "https://127.0.0.1:1"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Where a kubeconfig may be written to."""
    return tmp_path / "kubeconfig"


def config(server: str | None = URL, user: Any = None, **changes: Any) -> dict[str, Any]:
    """A kubeconfig's content; `changes` replace its parts."""
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server} if server else {}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
        **changes,
    }


def _write(kubeconfig: Path, content: Any) -> None:
    kubeconfig.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")


def _plugin(code: str) -> dict[str, Any]:
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", code]}
    return {"exec": execution}


async def _failure(kubeconfig: Path | None, *, in_cluster: bool = False, account: str = "") -> str:
    with pytest.raises(ClusterError) as caught:
        await connect(str(kubeconfig) if kubeconfig else None, in_cluster, account)
    return str(caught.value)


BAD = base64.b64encode(b"no certificate").decode()
UNUSABLE = "the kubeconfig {file} cannot be used: "
REMEDY = "`kubectl --kubeconfig {file} version` should work first"
NO_CERTIFICATE = f"the certificates for {URL} cannot be used: "


def cluster(**more: str) -> dict[str, Any]:
    """A kubeconfig whose cluster has more than its server."""
    return config(clusters=[{"name": "c", "cluster": {"server": URL, **more}}])


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (None, ["there is no kubeconfig at {file}; name another one, or set up access"]),
        ("a: [", [UNUSABLE, "while parsing a flow node", REMEDY]),
        ("", [UNUSABLE, REMEDY]),
        ("just text", [UNUSABLE, REMEDY]),
        (config(contexts=[]), [UNUSABLE, "Expected object with name here in"]),
        (config(**{"current-context": None}), [UNUSABLE, "Expected key current-context"]),
        (config(clusters=[]), [UNUSABLE, "Expected object with name c in"]),
        (config(users=[]), [UNUSABLE, REMEDY]),
        (cluster(**{"certificate-authority": "/no/file"}), [UNUSABLE, "File does not exists: /no/file", REMEDY]),
        # Where the client would try http://localhost.
        (config(None), ["context here of the kubeconfig {file} names a cluster without a"]),
        (cluster(**{"certificate-authority-data": BAD}), [NO_CERTIFICATE, "named or held by {file}"]),
        (
            config(user={"client-certificate-data": BAD, "client-key-data": BAD}),
            [NO_CERTIFICATE, "named or held by {file}"],
        ),
        # The client would go on as nobody.
        (config(user=_plugin("raise SystemExit(1)")), [f"gets its credentials from {sys.executable}, which gave none"]),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used(kubeconfig: Path, content: Any, parts: list[str]) -> None:
    """Whatever is wrong with a kubeconfig is one error, which names the file, the reason and a way to find out."""
    if content is not None:
        _write(kubeconfig, content)

    text = await _failure(kubeconfig)

    assert [part for part in parts if part.format(file=kubeconfig) not in text] == []


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a service account in a Pod."""
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "token").write_text("first", encoding="utf-8")
    (directory / "ca.crt").write_bytes(new_authority(datetime.now(UTC)).cert_pem)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return directory


async def test_a_service_account_in_a_directory_of_its_own(account: Path) -> None:
    """Token and CA are taken from the directory that is named, and a token that Kubernetes renewed is used in time."""
    api = await connect(None, in_cluster=True, service_account=str(account))
    configuration: Any = api.configuration
    (account / "token").write_text("second", encoding="utf-8")

    async def token() -> str:
        found: str = await configuration.get_api_key_with_prefix("BearerToken")
        return found

    soon = await token()
    loader = inspect.getclosurevars(configuration.refresh_api_key_hook).nonlocals["self"]
    loader.token_expires_at -= timedelta(minutes=1)
    later = await token()
    await api.close()

    assert (configuration.host, configuration.ssl_ca_cert) == ("https://10.96.0.1:443", str(account / "ca.crt"))
    assert (soon, later) == ("bearer first", "bearer second")


async def test_a_service_account_that_cannot_be_used(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad CA certificate, a directory without a token and a process in no Pod are errors with what to do."""
    (account / "ca.crt").write_text("nonsense", encoding="utf-8")
    bad = await _failure(None, in_cluster=True, account=str(account))
    (account / "token").unlink()
    absent = await _failure(None, in_cluster=True, account=str(account))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    nowhere = await _failure(None, in_cluster=True)

    outside = "this process does not seem to run in a Pod with a service account: "
    remedy = "; name a kubeconfig, or let the Pod mount its service account's token"
    assert bad.startswith("the certificates for https://10.96.0.1:443 cannot be used: ")
    assert bad.endswith(f"they are named or held by {account}")
    assert absent == (
        f"{outside}Service token file does not exist{remedy} and CA certificate at {account}, "
        "where cluster.serviceAccount has them"
    )
    assert nowhere == f"{outside}Service host/port is not set{remedy}"


async def test_the_default_kubeconfig(
    server: FakeApi, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a name it is $KUBECONFIG, which may hold several, as for kubectl."""
    _write(kubeconfig, config(server.url))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{kubeconfig}")

    api = await connect(None, in_cluster=False)

    assert api.configuration.host == server.url
    await api.close()


async def test_a_plugin_is_asked_again(server: FakeApi, kubeconfig: Path, tmp_path: Path) -> None:
    """When a token of a program has expired, the next request has a new one."""
    count = tmp_path / "count"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    code = (
        f"import json, pathlib; count = pathlib.Path({str(count)!r})\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        f"status = {{'token': f'token-{{number}}', 'expirationTimestamp': '2020-01-01T00:00:00Z'}}\n"
        f"print(json.dumps({json.dumps(credential)} | {{'status': status}}))"
    )
    _write(kubeconfig, config(server.url, user=_plugin(code)))
    server.put(NAMESPACES, named("one"))

    api = await connect(str(kubeconfig), in_cluster=False)
    await fetch(api, Call("GET", f"{NAMESPACES}/one"))
    await api.close()

    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer token-2"]


async def test_closed_means_closed(kubeconfig: Path) -> None:
    """A watch that is given up leaves no socket open once close() returns, though the API server notices nothing."""
    now = datetime.now(UTC)
    authority = new_authority(now)
    leaf = authority.issue(["127.0.0.1"], now)
    serving = ServingContext()
    serving.swap(leaf.cert_pem, leaf.key_pem)
    ended, noticed = threading.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nfirst\n")
        await writer.drain()
        ended.wait(PATIENCE)  # with the whole loop: the client ends in its own thread, and gets no answer to that
        with suppress(OSError):
            await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        noticed.set()

    async def watch() -> None:
        connection = await connect(str(kubeconfig), in_cluster=False)
        async with opened(connection, Call("GET", NAMESPACES)) as response:
            assert await response.content.readline() == b"first\n"
        await connection.close()
        assert [each for each in connection._sockets if each.fileno() >= 0] == []

    def client() -> None:
        try:
            asyncio.run(watch())
        finally:
            ended.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving.context)
    cluster = {
        "server": f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}",
        "certificate-authority-data": base64.b64encode(authority.cert_pem).decode(),
    }
    _write(kubeconfig, config(clusters=[{"name": "c", "cluster": cluster}]))

    with warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always")
        async with server:
            await asyncio.to_thread(client)
            await noticed.wait()
        gc.collect()

    assert [str(each.message) for each in left_open] == []


async def test_watches_leave_room_for_reads(server: FakeApi, kubeconfig: Path) -> None:
    """With more watches open than a pool has places, a read is still answered, and all is closed at the end."""
    _write(kubeconfig, config(server.url))
    server.put(NAMESPACES, named("one"))
    connection = await connect(str(kubeconfig), in_cluster=False)
    watch = Call("GET", NAMESPACES, (("watch", "true"), ("resourceVersion", "101")), seconds=None)
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        for _ in range(120):
            await stack.enter_async_context(opened(connection.watches, watch))
        body = json.loads(await fetch(connection, Call("GET", f"{NAMESPACES}/one")))
        used = len(connection._sockets)
    await connection.close()

    assert (body["metadata"]["name"], used) == ("one", 121)
    assert {seen.headers["User-Agent"] for seen in server.seen} == {"cks-admission"}
    assert [each for each in connection._sockets if each.fileno() >= 0] == []


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


def test_the_client_is_loaded_by_connecting_only() -> None:
    """The client's 16 MB are paid by whoever connects, not by whoever names another part of this package."""
    names = [module.name for module in pkgutil.walk_packages(webhook.cluster.__path__, "webhook.cluster.")]
    others = [name for name in names if not name.startswith("webhook.cluster.api.client")]
    code = (
        f"import sys, {', '.join(others)}\n"
        "before = 'kubernetes' in sys.modules\n"
        "import webhook.cluster.api.client\n"
        "print(before, 'kubernetes' in sys.modules)"
    )

    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed == "False True\n"
