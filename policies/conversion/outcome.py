"""What becomes of a document of another product: objects, CEL as text, and what of it is lost or differs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from policies.admissionpolicy.builtin.table import served_resources
from policies.admissionpolicy.documents.document import Path
from policies.golang.strconv import quote
from policies.objects.workload import plural


def literal(value: Any) -> str:
    """A decoded JSON value as an expression. Entries of maps and lists are dynamic, as those of parameters are."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return quote(value)
        case Mapping():
            return "{" + ", ".join(f"{quote(str(key))}: dyn({literal(one)})" for key, one in value.items()) + "}"
        case _:
            return "[" + ", ".join(f"dyn({literal(one)})" for one in value) + "]"


def matches(subject: str, patterns: Iterable[str]) -> str:
    """The condition that a text is one of some, which may have the wildcards * and ?."""
    plain = [pattern for pattern in patterns if not is_wild(pattern)]
    parts = [f"{subject} in [{', '.join(map(quote, plain))}]"] if len(plain) > 1 else []
    parts += [f"{subject} == {quote(plain[0])}"] if len(plain) == 1 else []
    parts += [f"{subject}.matches({quote(_pattern(pattern))})" for pattern in patterns if is_wild(pattern)]
    return either(parts)


def is_wild(pattern: str) -> bool:
    """Whether a text has wildcards."""
    return "*" in pattern or "?" in pattern


def _pattern(glob: str) -> str:
    return f"^{re.escape(glob).replace(re.escape('*'), '.*').replace(re.escape('?'), '.')}$"


def both(parts: Iterable[str]) -> str:
    """All conditions; empty if there is none."""
    return _joined([part for part in parts if part], " && ")


def either(parts: Iterable[str]) -> str:
    """Any of the conditions; empty if there is none."""
    return _joined([part for part in parts if part], " || ")


def _joined(parts: list[str], operator: str) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return operator.join(f"({part})" if "&&" in part or "||" in part else part for part in parts)


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
    """A policy, without what is empty. Its messages are lines, as Kubernetes demands."""
    metadata: dict[str, Any] = {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
    lines = [
        {**one, "message": " ".join(one["message"].split())} if "\n" in str(one.get("message") or "").strip() else one
        for one in spec.get("validations") or ()
    ]
    whole = _with_namespace({**spec, "validations": lines})
    filled = {key: value for key, value in whole.items() if value not in (None, [], {}, "")}
    return {"apiVersion": VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": filled}


_NAMESPACE_OBJECT = re.compile(r"\bnamespaceObject\b")
_VARIABLE = re.compile(r"\bvariables\.(\w+)")


def variables_in(value: object) -> frozenset[str]:
    """The names of the variables that expressions in a value read."""
    return frozenset(_VARIABLE.findall(str(value)))


def _with_namespace(spec: Json) -> Json:
    """A specification whose match conditions on namespaceObject are a variable, by which validations begin.

    kube-apiserver evaluates match conditions without the Namespace, so that these would fail on every request. Audit
    annotations stay: they may not be null by a condition, and refuse nothing.
    """
    conditions = spec.get("matchConditions") or ()
    texts = [text for one in conditions if _NAMESPACE_OBJECT.search(text := str(one.get("expression") or ""))]
    if not texts:
        return spec
    taken = {str(one.get("name")) for one in spec.get("variables") or ()}
    name = "inScope"
    while name in taken:
        name += "_"
    return {
        **spec,
        "matchConditions": [one for one in conditions if str(one.get("expression") or "") not in texts],
        "variables": [{"name": name, "expression": both(texts)}, *(spec.get("variables") or ())],
        "validations": [
            {**one, "expression": f"!variables.{name} || ({one.get('expression')})"}
            for one in spec.get("validations") or ()
        ],
    }


def binding(name: str, policy_name: str, actions: list[str], **more: Any) -> dict[str, Any]:
    """The binding of a policy."""
    filled = {key: value for key, value in more.items() if value}
    spec = {"policyName": policy_name, **filled, "validationActions": actions}
    return {"apiVersion": VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec}


def in_namespace(name: str) -> dict[str, Any]:
    """What makes a binding apply to one Namespace."""
    return {"namespaceSelector": {"matchLabels": {NAMESPACE: name}}}


ANY = "*"
Rule = dict[str, Any]


class Kind(NamedTuple):
    """A kind, whose parts may be a `*`."""

    group: str
    version: str
    kind: str
    subresource: str = ""

    @property
    def condition(self) -> str:
        """The condition that a request is about it."""
        group = "" if self.group == ANY else f"request.kind.group == {quote(self.group)}"
        kind = "" if self.kind == ANY else f"request.kind.kind == {quote(self.kind)}"
        return " && ".join(part for part in (group, kind) if part) or "true"


def read_kind(text: str) -> Kind:
    """A kind as Kyverno writes it: `Pod`, `apps/v1/Deployment`, `v1/Pod`, `batch/*/Job`, `Pod/exec`, `Pod.exec`."""
    parts = text.split("/")
    subresource = ""
    if len(parts) > 1 and parts[-1][:1].islower():
        subresource = parts.pop()
    elif "." in parts[-1]:
        parts[-1], _, subresource = parts[-1].partition(".")
    kind = parts[-1]
    match parts:
        case [_]:
            return Kind(ANY, ANY, kind, subresource)
        case [version, _] if version == ANY:
            return Kind(ANY, ANY, kind, subresource)
        case [version, _] if version.startswith("v"):
            return Kind("", version, kind, subresource)
        case [group, _]:
            return Kind(group, ANY, kind, subresource)
        case [group, version, *_]:
            return Kind(group, version, kind, subresource)
        case _:
            return Kind(ANY, ANY, kind, subresource)


def resource_rules(kinds: Sequence[Kind], operations: Sequence[str], notes: Notes, scope: str = "") -> list[Rule]:
    """A rule for each group and version of the kinds. Unknown ones need their group, and get the usual plural."""
    by_version: dict[tuple[str, str], list[str]] = {}
    served = {kind.kind for kind in kinds if _served(kind)}
    for index, kind in enumerate(kinds):
        for group, version, resource in _served(kind) or _supposed(kind, notes.at(index), is_known=kind.kind in served):
            names = by_version.setdefault((group, version), [])
            if resource not in names:
                names.append(resource)
    made = []
    for (group, version), names in by_version.items():
        rule: Rule = {"apiGroups": [group], "apiVersions": [version], "operations": list(operations)}
        made.append({**rule, "resources": names, **({"scope": scope} if scope else {})})
    return made


def _served(kind: Kind) -> list[tuple[str, str, str]]:
    """Group, version and name of each resource of a kind that an API server has by itself."""
    end = f"/{kind.subresource}" if kind.subresource else ""
    if kind.kind == ANY:
        return [(kind.group, kind.version, f"*{end}")]
    found = [
        (one.group, one.version if kind.version != ANY else ANY, one.name + end)
        for one in served_resources()
        if one.kind.kind == kind.kind
        and "/" not in one.name
        and kind.group in (ANY, one.group)
        and kind.version in (ANY, one.version)
    ]
    return list(dict.fromkeys(found))


def _supposed(kind: Kind, notes: Notes, *, is_known: bool) -> list[tuple[str, str, str]]:
    """The same of a custom kind. is_known: whether an API server has a kind of the name in another group."""
    versions = {one.version for one in served_resources() if one.group == kind.group}
    if kind.group == ANY:
        text = f"no built-in resource has the kind {kind.kind}: write it with its group and version, as g/v/{kind.kind}"
        notes.lose(text)
        return []
    if is_known and versions and kind.version == ANY:
        return []  # of a list of groups and one of kinds all pairs are named, of which some do not exist
    if kind.version in versions:
        notes.tell(f"it is left out, for there is no {kind.kind} in {kind.group or 'the core group'}")
        return []
    notes.tell(f"the resource of {kind.kind} is taken to be {plural(kind.kind)}")
    end = f"/{kind.subresource}" if kind.subresource else ""
    return [(kind.group, kind.version, plural(kind.kind) + end)]
