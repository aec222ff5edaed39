"""An installation for `doctor` to check: a small API server that calls a small TLS server, both on 127.0.0.1."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from support.api.fakeapi import MUTATING, NAMESPACES, NODES, VALIDATING, FakeApi, status
from support.builders import Json
from support.patience import PATIENCE

from certs.material import Leaf, new_authority
from certs.serving import ServingContext
from webhook.cluster.inspection import examination
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.registration.configurations import registered

LEASES = "/apis/coordination.k8s.io/v1/namespaces/cloud/leases"
CONFIG_MAPS = "/api/v1/namespaces/cloud/configmaps"
SECRETS = "/api/v1/namespaces/cloud/secrets"
_PLACE = {"topology.kubernetes.io/region": "us", "topology.kubernetes.io/zone": "us-1"}
PLURALS = {"MutatingWebhookConfiguration": MUTATING, "ValidatingWebhookConfiguration": VALIDATING}
DENIED = 'admission webhook "labels.cks-admission.dev" denied the request: not allowed'


class Installation(FakeApi):
    """The API server. refused: resources that nobody may use. user: the requester. answer: the answer to a probe."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.user: Json = {"username": "alice", "groups": ["system:authenticated"]}
        self.answer = (403, DENIED)
        self.asked: list[Json] = []

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return await super()._answer(request)
        body = json.loads(await request.read())
        if request.path.endswith("/configmaps"):
            self.asked.append({"query": dict(request.query), **body})
            code, message = self.answer
            return web.json_response(status(code, message), status=code)
        if request.path.endswith("/selfsubjectreviews"):
            return web.json_response({**body, "status": {"userInfo": self.user}}, status=201)
        self.asked.append(body)
        allowed = body["spec"]["resourceAttributes"]["resource"] not in self.refused
        return web.json_response({**body, "status": {"allowed": allowed}}, status=201)


@asynccontextmanager
async def installed(**sections: Any) -> AsyncIterator[Installation]:
    """An installation without faults. Writes its cks.yaml and its kubeconfig, kube.config, to this directory."""
    authority = new_authority(datetime.now(UTC))
    async with Installation() as api, _tls(authority.issue(["127.0.0.1"], datetime.now(UTC))) as port:
        written: Json = {
            "cluster": {"namespace": "cloud"},
            "registration": {"apply": True, "url": f"https://127.0.0.1:{port}"},
            **sections,
        }
        _write("cks.yaml", written)
        write_kubeconfig(api.url)
        groups = (
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "apps",
            "batch",
            "coordination.k8s.io",
            "resource.k8s.io",
        )
        api.groups["/version"] = {"gitVersion": "v1.36.3"}
        listed = [{"name": group, "versions": [{"version": "v1"}]} for group in (*groups, "authorization.k8s.io")]
        api.groups["/apis"] = {"groups": listed}
        api.put(NAMESPACES, {"metadata": {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}}})
        api.put(
            NODES, {"metadata": {"name": "gpu-1", "labels": _PLACE}, "status": {"allocatable": {"nvidia.com/gpu": 8}}}
        )
        kinds = {f"{kind.lower()}s": kind for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")}
        api.install("rbac.authorization.k8s.io", {"v1": kinds})
        settings = Settings.model_validate(written)
        for each in registered(settings, authority.cert_pem, rules.build(settings)):
            api.put(PLURALS[str(each["kind"])], dict(each))
        files = {"ca.crt": authority.cert_pem, "ca.key": authority.key_pem, "ca-bundle.crt": authority.cert_pem}
        leaf = authority.issue(["127.0.0.1"], datetime.now(UTC))
        # It answers with one Secret, whichever is asked for.
        files |= {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem}
        data = {name: base64.b64encode(content).decode() for name, content in files.items()}
        api.put(SECRETS, {"metadata": {"name": "ca"}, "data": data})
        renewed = (datetime.now(UTC) - timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "cks-1", "renewTime": renewed, "leaseDurationSeconds": 15}
        api.put(LEASES, {"metadata": {"name": "cks-admission"}, "spec": spec})
        yield api


@asynccontextmanager
async def _tls(leaf: Leaf) -> AsyncIterator[int]:
    """A port that serves a certificate and answers nothing."""

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    serving = ServingContext()
    serving.swap(leaf.cert_pem, leaf.key_pem)
    server = await asyncio.start_server(silent, "127.0.0.1", 0, ssl=serving.context)
    try:
        with pytest.MonkeyPatch.context() as patience:
            patience.setattr(examination, "_CONNECT_SECONDS", PATIENCE)  # nothing here is slow but the machine
            yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def kubeconfig(url: str) -> Json:
    """A kubeconfig for a small API server."""
    return {
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "my-token"}}],
    }


def write_kubeconfig(url: str) -> None:
    """Write kube.config for a small API server to this directory."""
    _write("kube.config", kubeconfig(url))


def _write(name: str, content: Json) -> None:
    Path(name).write_text(yaml.safe_dump(content), encoding="utf-8")
