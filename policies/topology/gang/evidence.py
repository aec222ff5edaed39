"""Whether a record is true: whether the affinity of a template keeps its Pods in the domain that the record names.

Anybody can write an annotation. A record therefore counts for nothing that the terms of the template do not say.
"""

from __future__ import annotations

from typing import Any

from policies.engine.request import JsonObject, mapping
from policies.topology.affinity import RecordEntry, are_present, selector_terms
from policies.topology.gang.address import Address, Step
from policies.vocabulary.keys import CLIQUE
from policies.vocabulary.nvlink import NVL_DOMAIN, domain


def is_true(entry: RecordEntry, affinity: Any) -> bool:
    """Whether an affinity has all recorded terms, and they, or the user's own, lead to the recorded domain.

    Each alternative that is required leads there, or one of the recorded preferences does within them.
    """
    if not entry.domain or not are_present(affinity, entry):
        return False
    bound = binding(entry, affinity)
    open_steps = [step for step in entry.domain if step not in bound]
    return not open_steps or any(_leads_to(open_steps, mapping(term, "preference")) for term in entry.preferred)


def binding(entry: RecordEntry, affinity: Any) -> Address:
    """The part of a recorded domain that an affinity requires, and does not only prefer."""
    required = [_expressions(term) for term in selector_terms(affinity)]
    return tuple(step for step in entry.domain if required and all(_is_in(step, term) for term in required))


def _leads_to(steps: list[Step], preference: JsonObject) -> bool:
    expressions = _expressions(preference)
    return all(_is_in(step, expressions) for step in steps)


def _expressions(term: Any) -> list[Any]:
    expressions = term.get("matchExpressions") if isinstance(term, dict) else None
    return expressions if isinstance(expressions, list) else []


def _are_in(step: Step, key: Any, values: list[Any]) -> bool:
    """Whether these values of a key are in the domains of a step. An NVL Domain is written as its cliques."""
    if NVL_DOMAIN in step.keys and key == CLIQUE:
        return all(isinstance(value, str) and domain(value) in step.values for value in values)
    return key in step.keys and all(value in step.values for value in values)


def _is_in(step: Step, expressions: list[Any]) -> bool:
    """Whether every Node that meets the expressions is in the domains of a step."""
    return any(
        isinstance(expression, dict)
        and expression.get("operator") == "In"
        and isinstance(values := expression.get("values"), list)
        and bool(values)
        and _are_in(step, expression.get("key"), values)
        for expression in expressions
    )
