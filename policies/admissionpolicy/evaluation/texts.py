"""The texts of policies, in kube-apiserver's words.

Sources: of k8s.io/apiserver's pkg/admission/plugin/policy validating/dispatcher.go, validating/validator.go and
generic/policy_dispatcher.go; pkg/endpoints/filters/warning.go; pkg/admission/plugin/cel/activation.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from policies.cel.values import Value
from policies.golang.quote import trimmed
from policies.golang.strconv import quote

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
MESSAGE_LIMIT = 5 * 1024
"""A messageExpression whose result has more bytes is not used."""
ANNOTATION_LIMIT = 10 * 1024
"""The value of an audit annotation is cut to so many bytes."""


def not_annotation(expression: str, type_name: str) -> str:
    """The message of an audit annotation's expression that is neither a text nor null."""
    problem = f"valueExpression '{expression}' resulted in unsupported return type: {type_name}."
    return f"{problem} Return type must be either string or null."


def denial(message: Value, static: str, expression: str) -> str:
    """The message of a validation that is false.

    `message`: the result of its messageExpression; None where it has none, or where that failed. It is used if it is a
    text of one line, not blank and not too long; else the static message is, or at last the expression itself.
    """
    words = trimmed(message) if isinstance(message, str) else ""
    if "\n" in words or len(words.encode(errors="surrogatepass")) > MESSAGE_LIMIT:
        words = ""
    return words or trimmed(static) or f"failed expression: {trimmed(expression)}"


def misconfigured_policy(error: str) -> str:
    """The message of a policy that cannot be evaluated."""
    return f"failed to configure policy: {error}"


def misconfigured_binding(error: str) -> str:
    """The message of a binding whose parameters cannot be had."""
    return f"failed to configure binding: {error}"


def validating_denial(policy: str, binding: str, message: str) -> str:
    """The refusal of a ValidatingAdmissionPolicy; `binding` is empty where the policy itself is misconfigured."""
    with_binding = f" with binding '{binding}'" if binding else ""
    return f"ValidatingAdmissionPolicy '{policy}'{with_binding} denied request: {message}"


def mutating_denial(policy: str, binding: str, message: str) -> str:
    """The refusal of a MutatingAdmissionPolicy."""
    if not binding:
        return f"policy {quote(policy)} denied request: {message}"
    return f"policy '{policy}' with binding '{binding}' denied request: {message}"


def no_schema(group: str, version: str, kind: str) -> str:
    """The message where something without a schema, such as the options of a connection, is to be changed."""
    start = "error applying patch: failed to convert patch object to typed object"
    return f"{start}: no corresponding type for {group}/{version}, Kind={kind}"


def annotation(value: str) -> str:
    """The value of an audit annotation, cut to its limit."""
    encoded = value.encode(errors="surrogatepass")
    return value if len(encoded) <= ANNOTATION_LIMIT else encoded[:ANNOTATION_LIMIT].decode(errors="replace")


def joined(values: Iterable[str]) -> str:
    """The value of an audit annotation that several bindings or parameters gave: each different one."""
    return ", ".join(dict.fromkeys(values))
