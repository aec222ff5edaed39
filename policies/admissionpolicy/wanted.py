"""Which parameter objects policies need, so that these are fetched and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from policies.admissionpolicy.model import Binding, ParamKind, Policy
from policies.engine.match import LabelSelector

_NOTATION = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedParameters:
    """The parameter called `name`, or all that `selector` selects; without both only the scope of their kind.

    namespace: empty for a cluster-scoped kind, and for the namespaces of all requests.
    """

    kind: ParamKind
    namespace: str = ""
    name: str = ""
    selector: LabelSelector | None = None

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.namespace else ""
        if self.name:
            return f"{self.kind.kind} {self.name}{place}"
        if self.selector is None:
            return f"{self.kind.kind} of {self.kind.api_version}"
        labels = label_selector(self.selector)
        return f"every {self.kind.kind}{f' with labels {labels!r}' if labels else ''}{place}"


def wanted(policies: Iterable[Policy], bindings: Iterable[Binding]) -> frozenset[WantedParameters]:
    """The parameters that policies with bindings need."""
    kinds: dict[tuple[str, str], ParamKind | None] = {
        (policy.kind, policy.name): policy.param_kind for policy in policies
    }
    return frozenset(
        _wanted(kind, binding)
        for binding in bindings
        if (kind := kinds.get((binding.kind.removesuffix("Binding"), binding.policy_name))) is not None
    )


def label_selector(selector: LabelSelector) -> str:
    """A selector as kubectl's --selector and the API's labelSelector have it; empty for one that selects everything.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api
    """
    return ",".join(_NOTATION[one.operator].format(one.key, ",".join(one.values)) for one in selector.requirements)


def _wanted(kind: ParamKind, binding: Binding) -> WantedParameters:
    reference = binding.param_ref
    if reference is None:
        return WantedParameters(kind=kind)
    return WantedParameters(kind=kind, namespace=reference.namespace, name=reference.name, selector=reference.selector)
