"""Sends the requests of cases to the API server: plain HTTP over one connection, as any user."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

import yaml

from cluster.policycases.case import LABEL, NAMESPACE, Ask, Json

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.controlplane import ControlPlane

_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Response:
    """What the API server answers."""

    code: int
    body: Json
    warnings: tuple[str, ...]


class Client:
    """A connection of the admin, who may act as anybody."""

    def __init__(self, control_plane: ControlPlane) -> None:
        user = yaml.safe_load(control_plane.kubeconfig("admin").read_text())["users"][0]["user"]
        pair = {key: control_plane.directory / f"policycases-{key}" for key in ("certificate", "key")}
        for key, path in pair.items():
            _write(path, base64.b64decode(user[f"client-{key}-data"]))
        context = ssl.create_default_context(cafile=control_plane.ca_file)
        context.load_cert_chain(pair["certificate"], pair["key"])
        self._connection = http.client.HTTPSConnection(urlsplit(control_plane.server).netloc, context=context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, method: str, path: str, body: Any = None, headers: list[tuple[str, str]] | None = None) -> Response:
        """Send one request, over a new connection if the API server has closed the one that was idle."""
        text = b"" if body is None else json.dumps(body).encode()
        media = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
        try:
            answer, raw = self._exchange(method, path, text, [*media, *(headers or [])])
        except OSError:
            self._connection.close()
            answer, raw = self._exchange(method, path, text, [*media, *(headers or [])])
        warnings = tuple(
            re.sub(r"\\(.)", r"\1", found)
            for header in answer.headers.get_all("Warning") or []
            for found in _WARNING.findall(header.encode("latin-1").decode())
        )
        try:
            decoded = json.loads(raw)
        except ValueError:
            decoded = {"message": raw.decode(errors="replace")}
        return Response(answer.status, decoded, warnings)

    def _exchange(
        self, method: str, path: str, text: bytes, headers: list[tuple[str, str]]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        self._connection.putrequest(method, path)
        for name, value in headers:
            self._connection.putheader(name, value)
        self._connection.endheaders(text)
        answer = self._connection.getresponse()
        return answer, answer.read()

    def make(self, path: str, body: Json) -> Json:
        """Create an object, or fail with the API server's words."""
        answer = self.send("POST", path, body)
        assert answer.code < 300, answer.body.get("message")
        return answer.body

    def ask(self, case: str, ask: Ask, audit_id: str = "") -> Response:
        """Send the request of a case as its user, without its having any effect; the audit log knows it by an id."""
        path, method = ask.kind.path(NAMESPACE), {"CREATE": "POST", "UPDATE": "PUT", "DELETE": "DELETE"}
        if ask.operation != "CREATE" or ask.subresource:
            path += f"/{object_name(case, ask)}"
        if ask.subresource:
            path += f"/{ask.subresource}"
        query = "?command=ls" if ask.operation == "CONNECT" else "?dryRun=All"
        headers = [("Impersonate-User", ask.user), *(("Impersonate-Group", group) for group in ask.groups)]
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for key, value in ask.extra]
        headers += [("Audit-ID", audit_id)] if audit_id else []
        body = None if ask.operation in ("DELETE", "CONNECT") else object_of(case, ask)
        return self.send(method.get(ask.operation, "POST"), path + query, body, headers)


def object_name(case: str, ask: Ask) -> str:
    """The name of the object that a request is about: of its own where it exists already."""
    return case if ask.operation == "CREATE" and not ask.subresource else f"{case}-old"


def object_of(case: str, ask: Ask, content: Json | None = None) -> Json:
    """The object that a request carries."""
    name = {"generateName": f"{case}-"} if ask.generate_name else {"name": object_name(case, ask)}
    metadata: Json = {**name, "labels": {LABEL: case}}
    if ask.annotations:
        metadata["annotations"] = dict(ask.annotations)
    if ask.kind.namespaced:
        metadata["namespace"] = NAMESPACE
    if ask.subresource == "scale":
        metadata.pop("labels")
        head = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    elif ask.subresource == "eviction":
        head = {"apiVersion": "policy/v1", "kind": "Eviction"}
    else:
        head = {"apiVersion": ask.kind.api_version, "kind": ask.kind.kind}
    return {**head, "metadata": metadata, **(ask.content if content is None else content)}


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
