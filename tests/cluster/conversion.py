"""A conversion webhook of a person's, which adds a label to what it converts."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from certs.material import new_authority
from certs.serving import ServingContext
from cluster import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.manifests import Manifest

DEFINITION = "gadgets.labels.test"


@contextmanager
def converting(label: str) -> Iterator[Manifest]:
    """Serve the webhook to the end of the block. Yields the conversion of a CustomResourceDefinition."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Convert the objects of a ConversionReview."""
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps({**review, "request": None, "response": _converted(review["request"], label)}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    authority = new_authority(datetime.now(UTC))
    leaf = authority.issue(["127.0.0.1"], datetime.now(UTC))
    serving = ServingContext()
    serving.swap(leaf.cert_pem, leaf.key_pem)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = serving.context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = {
        "url": f"https://127.0.0.1:{server.server_address[1]}/convert",
        "caBundle": base64.b64encode(authority.cert_pem).decode(),
    }
    try:
        yield {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    finally:
        server.shutdown()
        server.server_close()


def _converted(request: Manifest, label: str) -> Manifest:
    objects = [
        {**each, "apiVersion": request["desiredAPIVersion"], "metadata": _labelled(each["metadata"], label)}
        for each in request["objects"]
    ]
    return {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}


def _labelled(metadata: Manifest, label: str) -> Manifest:
    return {**metadata, "labels": {**metadata.get("labels", {}), label: "converted"}}


def gadgets(conversion: Manifest) -> Manifest:
    """Return a definition of a kind with a conversion, of requests in v1 to v2, which is stored."""
    definition = manifests.custom_resource("Gadget", "labels.test", "v2", "v1", schema={"type": "object"})
    definition["spec"]["conversion"] = conversion
    return definition
