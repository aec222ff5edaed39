"""Judges the same documents and requests as the service does, up to the answer that the API server gets."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from support.cel.answers import Table

from cluster.policycases.case import NAMESPACE, Ask, Case, Json
from cluster.policycases.ours import SCOPES, World, read, request
from cluster.programs import judged_as
from policies.admissionpolicy.evaluation.compilation import compile_policy
from policies.admissionpolicy.evaluation.inputs import StaticParameters
from policies.admissionpolicy.rules import policyrule
from policies.admissionpolicy.schema import built_in
from policies.engine import engine
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest
from policies.engine.rule import RuleSet
from webhook.http.review import encode

if TYPE_CHECKING:
    from policies.engine.rule import Rule


def status(case: Case, ask: Ask, new: Json | None, old: Json | None, world: World) -> tuple[int, str] | None:
    """Code and reason of the service's refusal; None if it admits the request."""
    judge = engine.mutate if case.mutating else engine.validate
    fields = request(case.name, ask, _generated(case, new)) | {"uid": "1", "object": new, "oldObject": old}
    asked = msgspec.convert({key: value for key, value in fields.items() if value is not None}, AdmissionRequest)
    rules = RuleSet(_rules(case, world))
    answer = world.answered(lambda: judge(asked, rules, _facts(world)))
    if answer.allowed:
        return None
    told: Any = msgspec.json.decode(encode("1", answer))["response"]["status"]
    return told["code"], told["reason"]


def _generated(case: Case, new: Json | None) -> str:
    """The name that the API server has made up by the time it validates."""
    return "" if case.mutating else ((new or {}).get("metadata") or {}).get("name", "")


def _rules(case: Case, world: World) -> list[Rule]:
    documents = read(case)
    parameters, compile_ = StaticParameters(world.parameters, SCOPES), partial(compile_policy, release=judged_as())
    if case.mutating:
        return policyrule.mutating_rules(
            documents.policies, documents.bindings, parameters, built_in, compile_=compile_
        )
    return policyrule.validating_rules(documents.policies, documents.bindings, parameters, {}, compile_)


def _facts(world: World) -> StaticFacts:
    labels = {NAMESPACE: world.namespace["metadata"]["labels"]}
    decisions = Table(world.answers)
    return StaticFacts(date.min, labels, decisions=decisions, whole_namespaces={NAMESPACE: world.namespace})
