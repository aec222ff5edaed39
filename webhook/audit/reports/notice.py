"""What people read on a workload about its report: what would be refused, by which policies, and where all of it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from policies.engine.violation import shortened, squeezed
from webhook.audit.finding import Scope
from webhook.audit.reports.form import Form
from webhook.audit.reports.report import name

_REFUSES: Final = ("fail", "error")
_NAMES: Final = 5
"""Policies that are named for a kind of object."""
# All parts together are shorter than an Event's message may be, 1024 characters.
_HEAD, _FIRST = 300, 350


def notice(form: Form, scope: Scope, content: Mapping[str, Any]) -> str:
    """A text on one line; empty if nothing would be refused. content: the report about the scope."""
    refusals = [result for result in content["results"] if result["result"] in _REFUSES]
    if not refusals:
        return ""
    policies: dict[str, dict[str, None]] = {}
    for result in refusals:
        policies.setdefault(result["properties"].get("kind", scope.kind), {})[result["policy"]] = None
    head = "; ".join(f"{kind} by {_named(list(names))}" for kind, names in policies.items())
    first = refusals[0]
    said = ": ".join(filter(None, (first["policy"], first["properties"].get("path"), first["message"])))
    plural, place = (form.plural, f" -n {scope.namespace}") if scope.namespace else (form.cluster_plural, "")
    return (
        f"Would be refused if created today: {shortened(head, _HEAD)}. {squeezed(said, _FIRST)} "
        f"Its report: kubectl get {plural}.{form.group} {name(scope)}{place} -o yaml"
    )


def _named(policies: Sequence[str]) -> str:
    return ", ".join(policies[:_NAMES]) + (" and others" if len(policies) > _NAMES else "")
