"""`cks-admission export native`: policies for kube-apiserver, and notes on what it does not support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from policies import rbac
from policies.admissionpolicy.derivation import is_derived
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.fields import KINDS
from policies.admissionpolicy.documents.reader import Loaded
from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.rules.validatingrule import covers_pods
from policies.engine.request import JsonObject
from policies.kubernetes.release import NEWEST, Release
from webhook.cli.output import to_yaml
from webhook.files import yamlfile, yamltext
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles

OWN = "cks-admission.dev"
"""The group of this service's own kinds, and before the slash of its own annotations."""
_Step = Literal["parameters", "policies", "bindings", "left out"]
_CLUSTER = "it belongs to the cluster, not to the policies; if the cluster lacks it, apply it first"
_REASONS = {
    OWN: "kube-apiserver does not know this kind",
    "apiextensions.k8s.io": _CLUSTER,
    rbac.API_VERSION.partition("/")[0]: _CLUSTER,
}


class Export(NamedTuple):
    """The YAML of each object, in an order that kubectl can apply, and a line for each omission."""

    texts: tuple[str, ...]
    notes: tuple[str, ...]


class _Written(NamedTuple):
    """An object, its place, and the text of its document; None if it is only a part of one."""

    value: JsonObject
    where: str
    text: str | None

    @property
    def shown(self) -> str:
        name = (self.value.get("metadata") or {}).get("name")
        return f"{self.where}: {self.value['kind']} {name or ''}".rstrip()


def export(files: Iterable[tuple[str, str]], release: Release = NEWEST) -> Export:
    """The policies in files, given by name and text. Raises PolicyFilesError, and FileError.

    release: that of the API server which gets them.
    """
    given = list(files)
    loaded = policyfiles.read(given, release=release).loaded
    kinds = {policy.param_kind for policy in loaded.policies}
    steps: dict[_Step, list[_Written]] = {"parameters": [], "policies": [], "bindings": [], "left out": []}
    for name, text in given:
        for written in _objects(name, text):
            steps[_step(written.value, kinds)].append(written)
    left_out = [f"{written.shown} is left out: {_reason(written.value)}" for written in steps.pop("left out")]
    texts = map(_text, (*steps["parameters"], *steps["policies"], *steps["bindings"]))
    return Export(tuple(texts), (*map(str, loaded.warnings), *left_out, *_underived(loaded)))


def _objects(name: str, text: str) -> Iterator[_Written]:
    for before, chunk in yamltext.documents(text):
        for document in policyfiles.parse(chunk, name):
            for item in reader.objects([document]):
                whole = item.value is document.value
                yield _Written(item.value, f"{name}:{before + item.line}", chunk if whole else None)


def _step(value: JsonObject, kinds: Iterable[ParamKind | None]) -> _Step:
    if value["apiVersion"].rpartition("/")[0] == reader.GROUP and value["kind"] in KINDS:
        return "bindings" if value["kind"].endswith("Binding") else "policies"
    return "parameters" if ParamKind(api_version=value["apiVersion"], kind=value["kind"]) in kinds else "left out"


def _reason(value: JsonObject) -> str:
    if (value["apiVersion"], value["kind"]) == ("v1", "Namespace"):
        return _CLUSTER
    return _REASONS.get(value["apiVersion"].rpartition("/")[0], "no policy uses parameters of this kind")


def _underived(loaded: Loaded) -> Iterator[str]:
    """A note for each policy that this service also applies to pod templates, unlike kube-apiserver."""
    bound = {binding.policy_name for binding in loaded.bindings if binding.kind == "ValidatingAdmissionPolicyBinding"}
    for policy in loaded.policies:
        ours = policy.kind == "ValidatingAdmissionPolicy" and policy.name in bound and is_derived(policy)
        if ours and covers_pods(policy.match_constraints):
            what = f"{policy.origin.file}:{policy.origin.line}: {policy.kind} {policy.name}"
            yield f"{what} also checks pod templates here; kube-apiserver checks only their Pods"


def _text(written: _Written) -> str:
    """An object without this service's annotations: as it was written, unless it is JSON or an item of a List."""
    plain = _plain(written.value)
    return _as_written(written.text or "", plain) or to_yaml(plain)


def _as_written(text: str, plain: JsonObject) -> str | None:
    """The author's text; None if it cannot be kept, for example because of an alias of what is cut out."""
    if text.lstrip().startswith("{"):
        return None
    try:
        cut = yamltext.without(text, ("metadata", "annotations"), f"{OWN}/") if text else ""
        values = [document.value for document in yamlfile.load("<document>", cut)]
    except FileError:
        return None
    return cut.strip("\n") + "\n" if values == [plain] else None


def _plain(value: JsonObject) -> JsonObject:
    metadata = value["metadata"]
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return value
    kept = {key: item for key, item in annotations.items() if not key.startswith(f"{OWN}/")}
    if kept == annotations:
        return value
    rest = {key: item for key, item in metadata.items() if key != "annotations"}
    return {**value, "metadata": {**rest, "annotations": kept} if kept else rest}
