"""Who an object is."""

from __future__ import annotations

from policies.engine.request import AdmissionRequest, mapping
from webhook.audit.finding import Subject


def subject(request: AdmissionRequest) -> Subject:
    """The subject of a request. Its workload is the object itself until its owners are known."""
    kind, metadata = request.kind, mapping(request.object, "metadata")
    version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    name = request.display_name
    return Subject(
        version, kind.kind, request.scope_namespace, name, str(metadata.get("uid") or ""), f"{kind.kind}/{name}"
    )
