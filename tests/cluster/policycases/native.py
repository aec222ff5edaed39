"""Sends the requests of cases to the API server: plain HTTP over one connection, as any user."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from cluster.apicalls import Caller
from cluster.policycases.case import LABEL, NAMESPACE, Ask, Json

if TYPE_CHECKING:
    from cluster.apicalls import Answer


class Client(Caller):
    """A connection of the administrator, who may act as anybody."""

    def ask(self, case: str, ask: Ask, audit_id: str = "") -> Answer:
        """Send the request of a case as its user, without its having any effect; the audit log knows it by an id."""
        path, method = ask.kind.path(NAMESPACE), {"CREATE": "POST", "UPDATE": "PUT", "DELETE": "DELETE"}
        if ask.operation != "CREATE" or ask.subresource:
            path += f"/{object_name(case, ask)}"
        if ask.subresource:
            path += f"/{ask.subresource}"
        query = "?command=ls" if ask.operation == "CONNECT" else "?dryRun=All"
        headers = [(f"Impersonate-Extra-{quote(key, safe='')}", value) for key, value in ask.extra]
        headers += [("Audit-ID", audit_id)] if audit_id else []
        body = None if ask.operation in ("DELETE", "CONNECT") else object_of(case, ask)
        return self.send(
            method.get(ask.operation, "POST"), path + query, body, user=ask.user, groups=ask.groups, headers=headers
        )


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
