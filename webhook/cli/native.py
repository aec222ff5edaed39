"""`cks-admission convert` and `export native`: policies in Kubernetes' form, of what others or this service have."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import click

from policies import rbac
from policies.admissionpolicy.derivation import is_derived
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.document import Path as FieldPath
from policies.admissionpolicy.documents.fields import KINDS
from policies.admissionpolicy.documents.reader import Loaded
from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.rules.validatingrule import covers_pods
from policies.conversion.conversion import convert as conversions
from policies.conversion.conversion import is_foreign
from policies.conversion.outcome import Conversion
from policies.engine.request import JsonObject
from policies.kubernetes.release import Release
from policies.objects.fieldpath import render
from webhook.cli import exits, options
from webhook.cli.exits import InputError, reading
from webhook.cli.output import to_yaml
from webhook.files import yamlfile, yamltext
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFilesError

_OWN = "cks-admission.dev"
"""The group of this service's own kinds, and before the slash of its own annotations."""
_Step = Literal["parameters", "policies", "bindings", "left out"]
_CLUSTER = "it belongs to the cluster, not to the policies; if the cluster lacks it, apply it first"
_REASONS = {
    _OWN: "kube-apiserver does not know this kind",
    "apiextensions.k8s.io": _CLUSTER,
    rbac.API_VERSION.partition("/")[0]: _CLUSTER,
}
_STEP = re.compile(r"[^.\[\]]+")


class _Line(NamedTuple):
    """A line for people. lost: whether it tells of something that has no counterpart."""

    text: str
    lost: bool


@click.command("convert")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True))
@options.kubernetes
def convert(paths: tuple[str, ...], policies__kubernetes: str | None) -> None:
    """Turn CEL policies of Kyverno and Gatekeeper into ValidatingAdmissionPolicies with their bindings.

    They are: rules of a ClusterPolicy or Policy with validate.cel, ValidatingPolicies, and ConstraintTemplates with
    K8sNativeValidation together with their constraints. What cannot be turned is told on stderr, with its place.

    Exit codes: 0 if everything was turned, 1 if something is lost, 2 if something cannot be read.

    \b
    Examples:
      cks-admission convert kyverno/ > policies/from-kyverno.yaml
      cks-admission convert template.yaml constraint.yaml > policies/from-gatekeeper.yaml
      cks-admission lint policies/from-kyverno.yaml
    """
    with reading(PolicyFilesError, FileError):
        files = [policyfiles.parse(text, name) for name, text in policyfiles.texts(paths)]
    documents = [part for file in files for document in file for part in _parts(document)]
    if not any(is_foreign(document.value) for document in documents):
        raise InputError(f"{', '.join(paths)}: no policies of Kyverno or Gatekeeper found")
    release = options.release(policies__kubernetes)
    lines, texts = [], []
    for document, conversion in zip(documents, conversions([one.value for one in documents]), strict=True):
        problems = dict(_problems(document, conversion, release))
        lines += [*_remarks(document, conversion), *problems.values()]
        # A policy that is not taken goes with its binding, which follows it.
        refused = {index + more for index, _ in problems for more in (0, 1)}
        if kept := [made for index, made in enumerate(conversion.objects) if index not in refused]:
            subject = f"{document.value['kind']} {document.value['metadata'].get('name')}"
            texts.append(f"# {document.name}:{document.line}: {subject}\n" + "---\n".join(map(to_yaml, kept)))
    for line in lines:
        click.echo(line.text, err=True)
    click.echo("---\n".join(texts), nl=False)
    sys.exit(exits.REFUSED if any(line.lost for line in lines) else exits.OK)


def _parts(document: Document) -> Iterator[Document]:
    """The objects of a document, or of a List."""
    value = document.value
    items = value.get("items") if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") else None
    parts = [document.at("items", index) for index in range(len(items))] if isinstance(items, list) else [document]
    yield from (part for part in parts if isinstance(part.value, dict) and isinstance(part.value.get("metadata"), dict))


def _remarks(document: Document, conversion: Conversion) -> Iterator[_Line]:
    for remark in conversion.remarks:
        sort = "lost" if remark.lost else "note"
        yield _Line(_told(document, remark.path, f"{sort}: {render(remark.path)}: {remark.text}"), remark.lost)


def _problems(document: Document, conversion: Conversion, release: Release) -> Iterator[tuple[tuple[int, int], _Line]]:
    """Why Kubernetes would not take what was made, where an expression uses what only others know.

    Each with the position of the policy among the objects, and its own.
    """
    if not conversion.objects:
        return
    try:
        policyfiles.read(
            [(document.name, "---\n".join(map(to_yaml, conversion.objects)))], drafts=True, release=release
        )
    except PolicyFilesError as error:
        starts = _starts(conversion)
        for number, problem in enumerate(error.problems):
            index = max(position for position, start in enumerate(starts) if start <= problem.line)
            path = _origin(conversion, index, problem.path)
            text = f"lost: {render(path)}: Kubernetes does not take it: {problem.message.splitlines()[0]}"
            yield (index, number), _Line(_told(document, path, text), lost=True)


def _starts(conversion: Conversion) -> Sequence[int]:
    """The first line of each object in the text of all."""
    starts = [1]
    for made in conversion.objects:
        starts.append(starts[-1] + to_yaml(made).count("\n") + 1)
    return starts


def _origin(conversion: Conversion, index: int, written: str) -> FieldPath:
    """The place in the document from which the part of an object came."""
    path = tuple(int(step) if step.isdecimal() else step for step in _STEP.findall(written))
    for length in range(len(path), -1, -1):
        if (index, path[:length]) in conversion.origins:
            return (*conversion.origins[index, path[:length]], *path[length:])
    return path


def _told(document: Document, path: FieldPath, text: str) -> str:
    line, column = document.place(path)
    return f"{document.name}:{line}:{column}: {text}"


class _Written(NamedTuple):
    """An object, its place, and the text of its document; None if it is only a part of one."""

    value: JsonObject
    where: str
    text: str | None

    @property
    def shown(self) -> str:
        name = (self.value.get("metadata") or {}).get("name")
        return f"{self.where}: {self.value['kind']} {name or ''}".rstrip()


def exported(files: Iterable[tuple[str, str]], release: Release) -> tuple[list[str], list[str]]:
    """The YAML of each object, in an order that kubectl can apply, and a line for each omission.

    files: names and texts. release: that of the API server which gets them. Raises PolicyFilesError and FileError.
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
    return list(texts), [*map(str, loaded.warnings), *left_out, *_underived(loaded)]


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
        cut = yamltext.without(text, ("metadata", "annotations"), f"{_OWN}/") if text else ""
        values = [document.value for document in yamlfile.load("<document>", cut)]
    except FileError:
        return None
    return cut.strip("\n") + "\n" if values == [plain] else None


def _plain(value: JsonObject) -> JsonObject:
    metadata = value["metadata"]
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return value
    kept = {key: item for key, item in annotations.items() if not key.startswith(f"{_OWN}/")}
    if kept == annotations:
        return value
    rest = {key: item for key, item in metadata.items() if key != "annotations"}
    return {**value, "metadata": {**rest, "annotations": kept} if kept else rest}
