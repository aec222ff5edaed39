"""Single requests to the API server, as any user, with the complete answer. They are faster than kubectl."""

from __future__ import annotations

import base64
import http.client
import json
import re
import select
import ssl
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cluster.controlplane import ControlPlane

_SECONDS = 90  # the API server itself gives up a request after 60 s at most
_IDLE_SECONDS = 30  # the API server ends a connection after 90 s without a request
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class Answer:
    """What came back: the HTTP status, the object or Status, the warnings, and the id in the audit log."""

    code: int
    body: dict[str, Any]
    warnings: tuple[str, ...]
    audit_id: str


def _decoded(content: bytes) -> dict[str, Any]:
    """A body; where it is no JSON, as for a group that is not served, a Status with its text."""
    try:
        found: dict[str, Any] = json.loads(content or b"{}")
    except ValueError:
        return {"kind": "Status", "message": content.decode(errors="replace")}
    return found


class Caller:
    """A connection of the administrator, who may speak for everybody."""

    def __init__(self, control_plane: ControlPlane) -> None:
        """Prepare it; the connection is opened by the first request."""
        kubeconfig = yaml.safe_load(control_plane.kubeconfig("admin").read_text(encoding="utf-8"))
        context = ssl.create_default_context(cafile=str(control_plane.ca_file))
        credentials = kubeconfig["users"][0]["user"]
        with tempfile.NamedTemporaryFile(dir=control_plane.directory) as pair:
            for part in ("certificate", "key"):
                pair.write(base64.b64decode(credentials[f"client-{part}-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
        address = control_plane.server.removeprefix("https://")
        self._used = 0.0
        self._connection = http.client.HTTPSConnection(address, timeout=_SECONDS, context=context)

    def __enter__(self) -> Self:
        """It closes with the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        user: str = "",
        groups: Sequence[str] = (),
        content_type: str = "application/json",
        accept: str = "application/json",
        headers: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """Send one request, as `user` in `groups`, or as the administrator. headers: more of them."""
        content = b"" if body is None else json.dumps(body).encode()
        response, received = self.exchange(
            method, path, content, content_type, accept, user=user, groups=groups, headers=headers
        )
        found = _decoded(received)
        warnings = [
            text
            for line in response.headers.get_all("Warning", [])
            for text in _WARNING.findall(line.encode("latin-1").decode())
        ]
        return Answer(
            code=response.status,
            body=found,
            warnings=tuple(re.sub(r"\\(.)", r"\1", text) for text in warnings),
            audit_id=response.headers.get("Audit-Id", ""),
        )

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield what a watch tells, as it comes, until the API server ends it. Raises OSError where it breaks off."""
        self._connection.close()
        self._connection.request("GET", path, headers={"Accept": "application/json"})
        for line in self._connection.getresponse():
            yield json.loads(line)

    def exchange(
        self,
        method: str,
        path: str,
        content: bytes,
        content_type: str = "application/json",
        accept: str = "application/json",
        *,
        user: str = "",
        groups: Sequence[str] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send bytes of any form, as `user` in `groups`, or as the administrator; return the response and its body."""
        connection = self._connection
        self._leave_ended()
        connection.putrequest(method, path)
        sent = [("Accept", accept), ("Content-Type", content_type), ("Content-Length", str(len(content)))]
        sent += [("Impersonate-User", user)] if user else []
        sent += [("Impersonate-Group", group) for group in groups]
        for name, value in [*sent, *headers]:
            connection.putheader(name, value)
        connection.endheaders(content)
        response = connection.getresponse()
        return response, response.read()

    def _leave_ended(self) -> None:
        """Close a connection that the API server has ended by a restart, or soon ends since it was idle for long."""
        socket, now = self._connection.sock, time.monotonic()
        if socket is not None and (now > self._used + _IDLE_SECONDS or select.select([socket], [], [], 0)[0]):
            self._connection.close()
        self._used = now

    def make(self, path: str, body: Mapping[str, Any], *, user: str = "", groups: Sequence[str] = ()) -> dict[str, Any]:
        """Create an object and return it. Raises AssertionError if it is not accepted."""
        answer = self.send("POST", path, body, user=user, groups=groups)
        assert answer.code == http.client.CREATED, (path, body, answer)
        return answer.body
