"""Makes the reviews: `python -m benchmarks.record` records what a real API server sends for `data/pod.yaml`.

It starts a control plane, as the cluster tests do, and a webhook on loopback that records the bodies, and creates the
Pod with `kubectl apply --server-side`. Run it again when the Pod or the version of Kubernetes changes.
"""

from __future__ import annotations

import base64
import ssl
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import yaml
from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE

from benchmarks.bodies import POD, REAL, SMALL, TOLERATION, tolerated
from certs.plan import ensure

HOST = "127.0.0.1"
Recorded = dict[str, tuple[bytes, dict[str, str]]]


@contextmanager
def recorder(directory: Path) -> Iterator[tuple[int, bytes, Recorded]]:
    """A webhook that allows everything, adds the toleration at /mutate and keeps the body and headers of each path.

    Yields its port, the PEM of the CA that its callers need, and what it has recorded.
    """
    ensured = ensure(directory, (HOST,), datetime.now(UTC))
    pair = directory / "recorder.pem"
    pair.write_bytes(ensured.leaf.cert_pem + ensured.leaf.key_pem)
    recorded: Recorded = {}
    patch = base64.b64encode(msgspec.json.encode([{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}]))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path = self.path.partition("?")[0]
            recorded[path] = body, {"path": self.path, **dict(self.headers.items())}
            response = {"uid": msgspec.json.decode(body)["request"]["uid"], "allowed": True}
            if path == "/mutate":
                response |= {"patch": patch.decode(), "patchType": "JSONPatch"}
            answer = msgspec.json.encode(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            )
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, ensured.bundle.pem, recorded
    finally:
        server.shutdown()
        server.server_close()


def configuration(kind: str, path: str, port: int, ca: bytes) -> dict[str, Any]:
    """The webhook configuration that makes the API server call the recorder for new Pods."""
    webhook = {
        "name": "recorder.example.org",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"https://{HOST}:{port}{path}", "caBundle": base64.b64encode(ca).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "recorder"}, "webhooks": [webhook]}


def record(directory: Path) -> Recorded:
    """The calls that a real API server makes for the Pod, to /mutate and to /validate."""
    pod = yaml.safe_load(POD.read_text())
    namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    priority["metadata"] = {"name": pod["spec"]["priorityClassName"]}
    with recorder(directory) as (port, ca, recorded), ControlPlane(toolchain.ensure(CONTROL_PLANE)) as cluster:
        cluster.namespace(namespace)
        cluster.kubectl("create", "serviceaccount", account, "-n", namespace, check=True)
        cluster.apply(priority, check=True)
        for kind, path in (("Mutating", "/mutate"), ("Validating", "/validate")):
            cluster.apply(configuration(f"{kind}WebhookConfiguration", path, port, ca), check=True)

        def seen() -> bool:  # the API server takes a moment to notice the configurations
            cluster.apply(POD.read_text(), "--server-side", "--dry-run=server", check=True)
            return len(recorded) == 2

        cluster.wait_for("the API server to call the recorder", seen)
        recorded.clear()
        cluster.apply(POD.read_text(), "--server-side", check=True)
    return recorded


def small(real: bytes) -> bytes:
    """The same request with the Pod as it was written, without defaults and managedFields."""
    review: dict[str, Any] = msgspec.json.decode(real)
    review["request"]["object"] = yaml.safe_load(POD.read_text())
    return msgspec.json.encode(review)


def main() -> None:
    """Record the calls, check them, write both files, and print a summary of them."""
    with tempfile.TemporaryDirectory() as directory:
        recorded = record(Path(directory))
    real, headers = recorded["/mutate"]
    # /validate gets the Pod as /mutate left it, plus a uid and a status. The benchmark adds the toleration itself and
    # leaves out these 200 bytes.
    sent, derived = (
        msgspec.json.decode(b)["request"]["object"]["spec"] for b in (recorded["/validate"][0], tolerated(real))
    )
    if sent != derived:
        sys.exit("The Pod that /validate is asked about is not the one that benchmarks/bodies.py makes.")
    REAL.write_bytes(real)
    SMALL.write_bytes(small(real))
    metadata = msgspec.json.decode(real)["request"]["object"]["metadata"]
    managed = len(msgspec.json.encode(metadata.get("managedFields", [])))
    print(f"{REAL.name}: {len(real)} bytes, managedFields {managed}; {SMALL.name}: {SMALL.stat().st_size} bytes")
    print("\n".join(f"{name}: {value}" for name, value in headers.items()))


if __name__ == "__main__":
    main()
