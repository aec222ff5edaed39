"""Who an object is, and whom it belongs to."""

from __future__ import annotations

from typing import Any

from policies.engine.request import AdmissionRequest, JsonObject, mapping
from webhook.audit.finding import Subject


def subject(request: AdmissionRequest) -> Subject:
    """The subject of a request. Its workload is the object itself until its owners are known."""
    kind, metadata = request.kind, mapping(request.object, "metadata")
    version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    name = request.display_name
    return Subject(
        version, kind.kind, request.scope_namespace, name, str(metadata.get("uid") or ""), f"{kind.kind}/{name}"
    )


def controller(obj: JsonObject | None) -> dict[str, Any] | None:
    """The owner reference of the controller that owns an object; None if none does."""
    references = mapping(obj, "metadata").get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller") is True:
            return reference
    return None
