"""A case: a policy, its bindings, and the requests that it judges.

The policy of a case selects the objects that carry the case's name as a label. So all cases can be in force at once,
and each request matches one policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

NAMESPACE = "policy-cases"
LABEL = "policy-case"
GROUP = "admissionregistration.k8s.io"
EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


@dataclass(frozen=True)
class Kind:
    """A kind of object, as a request names it."""

    group: str
    version: str
    kind: str
    resource: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str) -> str:
        """Where objects of the kind are."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.resource}" if self.namespaced else f"{root}/{self.resource}"


CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
POD = Kind("", "v1", "Pod", "pods")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
NAMESPACE_KIND = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
LIMIT = Kind("policy-cases.example.com", "v1", "Limit", "limits")
"""A custom resource of the proof's own, for parameters."""


@dataclass(frozen=True)
class Ask:
    """One request. `old` is what the object is before an UPDATE or DELETE, where that is not `content`."""

    operation: Operation = "CREATE"
    kind: Kind = CONFIG_MAP
    content: Json = field(default_factory=lambda: {"data": {"a": "1"}})
    old: Json | None = None
    subresource: str = ""
    user: str = "alice"
    groups: tuple[str, ...] = ("testers",)
    extra: tuple[tuple[str, str], ...] = ()
    generate_name: bool = False
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Case:
    """A policy with its bindings, and what it is asked. `match` replaces the label as what selects the requests."""

    name: str
    spec: Json
    bindings: Sequence[Json]
    asks: Sequence[Ask]
    mutating: bool = False
    match: Json | None = None

    @property
    def unordered(self) -> bool:
        """Whether the API server takes bindings or parameters as they come."""
        return len(self.bindings) > 1 or any("selector" in each.get("paramRef", ()) for each in self.bindings)

    @property
    def prefix(self) -> str:
        """Mutating or Validating."""
        return "Mutating" if self.mutating else "Validating"

    @property
    def documents(self) -> list[Json]:
        """The policy and its bindings as the API server gets them."""
        labels = {LABEL: "all"}
        constraints = self.match or {
            "resourceRules": [EVERYTHING | ({"operations": ["CREATE", "UPDATE", "CONNECT"]} if self.mutating else {})],
            "objectSelector": {"matchLabels": {LABEL: self.name}},
        }
        head = {"apiVersion": f"{GROUP}/v1"}
        policy = {
            **head,
            "kind": f"{self.prefix}AdmissionPolicy",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"matchConstraints": constraints, **self.spec},
        }
        bindings = [
            {
                **head,
                "kind": f"{self.prefix}AdmissionPolicyBinding",
                "metadata": {"name": f"{self.name}-{index}", "labels": labels},
                "spec": {"policyName": self.name, **binding},
            }
            for index, binding in enumerate(self.bindings)
        ]
        return [policy, *bindings]


BIG = "x" * 200_000
_PATTERN = "(" + "|".join(f"never{index:03d}" for index in range(17)) + ")y"
EXPENSIVE = f"object.data.big.matches('{_PATTERN}')"
"""Costs 800,000 on a text of 200,000 characters: more than half of what one expression may cost."""
TWO_CHECKS = (
    "(authorizer.group('').resource('pods').check('get').allowed() || "
    "authorizer.group('apps').resource('widgets').check('frob').allowed() || true)"
)
ONE_CHECK = "(authorizer.group('').resource('secrets').check('frob').allowed() || true)"
BIG_MAP = Ask(content={"data": {"big": BIG}})
CONFIG_MAPS: Json = {"apiVersion": "v1", "kind": "ConfigMap"}
PRIORITY_CLASSES: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
CONTAINER = {"name": "main", "image": "example.test/main:1"}
DENY: Json = {"validationActions": ["Deny"]}


def validating(
    name: str,
    *validations: str | Json,
    asks: Sequence[Ask] = (Ask(),),
    bindings: Sequence[Json] = (DENY,),
    match: Json | None = None,
    **spec: Any,
) -> Case:
    """A case of a ValidatingAdmissionPolicy; a validation is an expression, or all its fields."""
    if validations:
        spec["validations"] = [{"expression": each} if isinstance(each, str) else each for each in validations]
    return Case(f"v-{name}", spec, bindings, asks, match=match)


def mutating(
    name: str,
    *mutations: str,
    asks: Sequence[Ask] = (Ask(),),
    bindings: Sequence[Json] = ({},),
    match: Json | None = None,
    **spec: Any,
) -> Case:
    """A case of a MutatingAdmissionPolicy; an expression that begins with `[` is a JSON patch."""
    made = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
        if text.startswith("[")
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
        for text in mutations
    ]
    spec = {"mutations": made, "reinvocationPolicy": "Never", **spec}
    return Case(f"m-{name}", spec, bindings, asks, mutating=True, match=match)


def object_name(case: str, ask: Ask) -> str:
    """The name of the object that a request is about: of its own where it exists already."""
    return case if ask.operation == "CREATE" and not ask.subresource else f"{case}-old"


def object_of(case: str, ask: Ask, content: Json | None = None) -> Json:
    """The object that a request carries."""
    name = {"generateName": f"{case}-"} if ask.generate_name else {"name": object_name(case, ask)}
    metadata: Json = {**name, "labels": {LABEL: case}}
    if ask.annotations:
        metadata["annotations"] = dict(ask.annotations)
    if ask.kind.namespaced:
        metadata["namespace"] = NAMESPACE
    if ask.subresource == "scale":
        metadata.pop("labels")
        head = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    elif ask.subresource == "eviction":
        head = {"apiVersion": "policy/v1", "kind": "Eviction"}
    else:
        head = {"apiVersion": ask.kind.api_version, "kind": ask.kind.kind}
    return {**head, "metadata": metadata, **(ask.content if content is None else content)}
