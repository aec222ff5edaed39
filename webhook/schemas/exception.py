"""The schema of a PolicyException, made from the fields by which one is decoded."""

from __future__ import annotations

from typing import Any

from policies.admissionpolicy.documents.exception import GROUP, KIND, VERSION
from policies.admissionpolicy.documents.fields import EXCEPTION, Shape


def schema() -> dict[str, Any]:
    """The schema."""
    made = _of(EXCEPTION)
    made["required"] = ["apiVersion", "kind", "metadata", "spec"]
    fields = made["properties"]
    fields["apiVersion"], fields["kind"] = {"const": f"{GROUP}/{VERSION}"}, {"const": KIND}
    fields["metadata"]["required"] = ["name"]
    spec = fields["spec"]
    spec["required"] = ["policies", "reason", "until"]
    spec["properties"]["policies"] |= {"minItems": 1, "description": "Names of policies or built-in rules."}
    spec["properties"]["reason"] |= {"minLength": 1, "description": "Why; whoever audits it reads this."}
    spec["properties"]["until"] |= {
        "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        "description": "The last day (UTC) on which it holds.",
    }
    return {"title": "PolicyException of cks-admission", **made}


def _of(shape: Shape) -> dict[str, Any]:
    if shape.fields is not None:
        properties = {name: _of(field) for name, field in shape.fields.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}
    made: dict[str, Any] = {"type": "integer" if shape.json == "number" else shape.json} if shape.json else {}
    if shape.item is not None:
        made |= {"items" if shape.json == "array" else "additionalProperties": _of(shape.item)}
    return made
