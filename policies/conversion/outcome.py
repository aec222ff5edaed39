"""What becomes of a document of another product: objects, and what of it is lost or differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from policies.admissionpolicy.documents.document import Path

Json = Mapping[str, Any]
VERSION = "admissionregistration.k8s.io/v1"
NAMESPACE = "kubernetes.io/metadata.name"


class Remark(Struct, frozen=True):
    """Something to know. path: its place in the document. lost: whether a part of the document has no counterpart."""

    path: Path
    text: str
    lost: bool = True


class Conversion(NamedTuple):
    """The objects that a document becomes, policies before their bindings, and the remarks.

    origins: where the parts of an object come from, by the object's position and their path in it.
    """

    objects: tuple[dict[str, Any], ...] = ()
    remarks: tuple[Remark, ...] = ()
    origins: Mapping[tuple[int, Path], Path] = {}


class Notes:
    """Collects remarks below a path."""

    def __init__(self, path: Path = (), remarks: list[Remark] | None = None) -> None:
        self.path = path
        self.remarks: list[Remark] = [] if remarks is None else remarks

    def at(self, *steps: str | int) -> Notes:
        """The same for what is below."""
        return Notes((*self.path, *steps), self.remarks)

    def lose(self, text: str, *steps: str | int) -> None:
        """Note that something is lost."""
        self.remarks.append(Remark((*self.path, *steps), text))

    def tell(self, text: str, *steps: str | int) -> None:
        """Note something that is not lost."""
        self.remarks.append(Remark((*self.path, *steps), text, lost=False))

    @property
    def has_lost(self) -> bool:
        """Whether something is lost."""
        return any(remark.lost for remark in self.remarks)


def lost(text: str, *steps: str | int) -> Conversion:
    """A document of which nothing remains."""
    return Conversion(remarks=(Remark(steps, text),))


def policy(name: str, spec: Json, annotations: Json | None = None) -> dict[str, Any]:
    """A policy, without what is empty."""
    metadata: dict[str, Any] = {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
    filled = {key: value for key, value in spec.items() if value not in (None, [], {}, "")}
    return {"apiVersion": VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": filled}


def binding(name: str, policy_name: str, actions: list[str], **more: Any) -> dict[str, Any]:
    """The binding of a policy."""
    filled = {key: value for key, value in more.items() if value}
    spec = {"policyName": policy_name, **filled, "validationActions": actions}
    return {"apiVersion": VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec}


def in_namespace(name: str) -> dict[str, Any]:
    """What makes a binding apply to one Namespace."""
    return {"namespaceSelector": {"matchLabels": {NAMESPACE: name}}}
