"""kube-apiserver's messages about policies.

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
"""The value of an audit annotation is truncated to this many bytes."""


def not_annotation(expression: str, type_name: str) -> str:
    """The message for an audit annotation whose expression returns neither a string nor null."""
    problem = f"valueExpression '{expression}' resulted in unsupported return type: {type_name}."
    return f"{problem} Return type must be either string or null."


def denial(message: Value, static: str, expression: str) -> str:
    """The message for a validation that is false.

    `message`: the result of its messageExpression; None if it has none or it failed. It is used if it is a string of
    one line, not blank and not too long; otherwise the static message or, without one, the expression is used.
    """
    words = trimmed(message) if isinstance(message, str) else ""
    if "\n" in words or len(words.encode(errors="surrogatepass")) > MESSAGE_LIMIT:
        words = ""
    return words or trimmed(static) or f"failed expression: {trimmed(expression)}"


def misconfigured_policy(error: str) -> str:
    """The message for a policy that cannot be evaluated."""
    return f"failed to configure policy: {error}"


def misconfigured_binding(error: str) -> str:
    """The message for a binding whose parameters cannot be found."""
    return f"failed to configure binding: {error}"


def validating_denial(policy: str, binding: str, message: str) -> str:
    """The refusal by a ValidatingAdmissionPolicy; `binding` is empty if the policy itself is misconfigured."""
    with_binding = f" with binding '{binding}'" if binding else ""
    return f"ValidatingAdmissionPolicy '{policy}'{with_binding} denied request: {message}"


def warning(policy: str, binding: str, message: str) -> str:
    """The warning of a validation that fails under the action Warn."""
    return f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"


def mutating_denial(policy: str, binding: str, message: str) -> str:
    """The refusal by a MutatingAdmissionPolicy."""
    if not binding:
        return f"policy {quote(policy)} denied request: {message}"
    return f"policy '{policy}' with binding '{binding}' denied request: {message}"


def no_schema(group: str, version: str, kind: str) -> str:
    """The message for a mutation of something without a schema, such as the options of a connection."""
    start = "error applying patch: failed to convert patch object to typed object"
    return f"{start}: no corresponding type for {group}/{version}, Kind={kind}"


def annotation(value: str) -> str:
    """The value of an audit annotation, truncated to its limit."""
    encoded = value.encode(errors="surrogatepass")
    return value if len(encoded) <= ANNOTATION_LIMIT else encoded[:ANNOTATION_LIMIT].decode(errors="replace")


def joined(values: Iterable[str]) -> str:
    """The value of an audit annotation from several bindings or parameters, without duplicates."""
    return ", ".join(dict.fromkeys(values))
