"""What is required of Nodes' labels, and numbers, in words."""

from __future__ import annotations

from typing import Any

from policies.engine.match import EVERYTHING, LabelSelector
from policies.topology.term import Term, alternatives, to_json


def requirement(expression: Any) -> str:
    """One of a node selector's requirements, in the API's form: `example.org/rack=12`."""
    if not isinstance(expression, dict):
        return str(expression)
    operator = expression.get("operator")
    values = ", ".join(str(value) for value in expression.get("values") or ())
    forms = {
        "In": f" in ({values})" if ", " in values else f"={values}",
        "NotIn": f" not in ({values})" if ", " in values else f"!={values}",
        "Exists": " is there",
        "DoesNotExist": " is not there",
        "Gt": f" > {values}",
        "Lt": f" < {values}",
    }
    return f"{expression.get('key')}{forms.get(str(operator), f' {operator} {values}')}"


def term(requirements: Term) -> str:
    """All of a term's requirements."""
    return " and ".join(map(requirement, to_json(requirements)))


def selector(chosen: LabelSelector) -> str:
    """What labels must have that a selector chooses."""
    return " and ".join(requirement(chosen_requirement.to_json()) for chosen_requirement in chosen.requirements)


def node_requirement(chosen: LabelSelector) -> list[str]:
    """The alternatives of which a Node must meet one for what a topology requires; none where it requires nothing."""
    return [] if chosen == EVERYTHING else [term(alternative) for alternative in alternatives((), chosen)]
