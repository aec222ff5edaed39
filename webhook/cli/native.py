"""`cks-admission convert` and `export native`: policies in Kubernetes' form, of what others or this service have."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import accumulate

import click

from policies import rbac
from policies.admissionpolicy.derivation import is_derived
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import KINDS, Document
from policies.admissionpolicy.documents.document import Path as FieldPath
from policies.admissionpolicy.documents.reader import Loaded
from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.rules.policyrule import covers_pods
from policies.conversion import Conversion, is_foreign
from policies.conversion import convert as conversions
from policies.engine.request import JsonObject
from policies.engine.violation import printable
from policies.kubernetes.release import Release
from policies.objects.fieldpath import render
from webhook.cli import exits, options
from webhook.cli.exits import InputError, bounded, reading
from webhook.cli.output import harmless, say, to_yaml, write_text
from webhook.files import yamlfile, yamltext
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFilesError

_OWN = "cks-admission.dev"
"""The group of this service's own kinds, and before the slash of its own annotations."""
_CLUSTER = "it belongs to the cluster, not to the policies; if the cluster lacks it, apply it first"
_REASONS = {
    _OWN: "kube-apiserver does not know this kind",
    "apiextensions.k8s.io": _CLUSTER,
    rbac.API_VERSION.partition("/")[0]: _CLUSTER,
}
_STEP = re.compile(r"[^.\[\]]+")


@click.command("convert")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True))
@options.kubernetes
def convert(paths: tuple[str, ...], policies__kubernetes: str | None) -> None:
    """Turn CEL policies of Kyverno and Gatekeeper into ValidatingAdmissionPolicies with their bindings.

    It takes rules of a ClusterPolicy or Policy with validate.cel, ValidatingPolicies, and ConstraintTemplates with
    K8sNativeValidation and their constraints. What it cannot convert is on stderr, with its place.

    Exit codes: 0 if everything was converted, 1 if something is lost, 2 if something cannot be read.

    \b
    Examples:
      cks-admission convert kyverno/ > policies/from-kyverno.yaml
      cks-admission convert template.yaml constraint.yaml > policies/from-gatekeeper.yaml
      cks-admission lint policies/from-kyverno.yaml
    """
    with reading(FileError):
        documents: list[Document] = []
        for name, text in policyfiles.texts(paths):
            with bounded(name, "read"):
                documents += (part for document in policyfiles.parse(text, name) for part in _parts(document))
    if not any(is_foreign(document.value) for document in documents):
        raise InputError(f"{', '.join(paths)}: no policies of Kyverno or Gatekeeper found")
    release = options.release(policies__kubernetes)
    lines, texts, is_lost = [], [], False
    for document, conversion in zip(documents, conversions([one.value for one in documents]), strict=True):
        problems = list(_problems(document, conversion, release))
        remarks = [(remark.path, "lost" if remark.lost else "note", remark.text) for remark in conversion.remarks]
        remarks += [(path, "lost", f"Kubernetes does not take it: {text}") for _, path, text in problems]
        for path, sort, text in remarks:
            place = ":".join(map(str, document.place(path)))
            lines.append(f"{document.name}:{place}: {sort}: {render(path)}: {text}")
            is_lost = is_lost or sort == "lost"
        # A policy that is not taken goes with its binding, which follows it.
        refused = {index + more for index, _, _ in problems for more in (0, 1)}
        if kept := [made for index, made in enumerate(conversion.objects) if index not in refused]:
            subject = f"{document.value['kind']} {document.value['metadata'].get('name')}"
            texts.append(
                printable(f"# {document.name}:{document.line}: {subject}") + "\n" + "---\n".join(map(to_yaml, kept))
            )
    say(*lines, err=True)
    write_text("---\n".join(texts))
    sys.exit(exits.REFUSED if is_lost else exits.OK)


def _parts(document: Document) -> Iterator[Document]:
    """The objects of a document, or of a List."""
    value = document.value
    items = value.get("items") if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") else None
    parts = [document.at("items", index) for index in range(len(items))] if isinstance(items, list) else [document]
    yield from (part for part in parts if isinstance(part.value, dict) and isinstance(part.value.get("metadata"), dict))


def _problems(document: Document, conversion: Conversion, release: Release) -> Iterator[tuple[int, FieldPath, str]]:
    """Why Kubernetes would not take what was made, where an expression uses what only others know.

    Each with the position of the policy among the objects, and the place in the document from which the part came.
    """
    texts = list(map(to_yaml, conversion.objects))
    if not texts:
        return
    try:
        policyfiles.read([(document.name, "---\n".join(texts))], drafts=True, release=release, within=bounded)
    except PolicyFilesError as error:
        starts = list(accumulate((text.count("\n") + 1 for text in texts), initial=1))
        for problem in error.problems:
            index = max(position for position, start in enumerate(starts) if start <= problem.line)
            path = tuple(int(step) if step.isdecimal() else step for step in _STEP.findall(problem.path))
            for length in range(len(path), -1, -1):
                if (index, path[:length]) in conversion.origins:
                    path = (*conversion.origins[index, path[:length]], *path[length:])
                    break
            yield index, path, problem.message.splitlines()[0]


def exported(files: Iterable[tuple[str, str]], release: Release) -> tuple[list[str], list[str]]:
    """The YAML of each object, in an order that kubectl can apply, and a line for each omission.

    files: names and texts. release: that of the API server which gets them. Raises FileError.
    """
    given = list(files)
    loaded = policyfiles.read(given, release=release, within=bounded).loaded
    kinds = {policy.param_kind for policy in loaded.policies}
    texts: dict[str, list[str]] = {"parameters": [], "policies": [], "bindings": []}
    left_out = []
    for name, text in given:
        for where, value, written in _objects(name, text):
            api_version, kind = value["apiVersion"], value["kind"]
            group = api_version.rpartition("/")[0]
            if group == reader.GROUP and kind in KINDS:
                texts["bindings" if kind.endswith("Binding") else "policies"].append(_text(value, written))
            elif ParamKind(api_version=api_version, kind=kind) in kinds:
                texts["parameters"].append(_text(value, written))
            else:
                reason = _REASONS.get(group, "no policy uses parameters of this kind")
                reason = _CLUSTER if (api_version, kind) == ("v1", "Namespace") else reason
                called = f"{kind} {(value.get('metadata') or {}).get('name') or ''}".rstrip()
                left_out.append(f"{where}: {called} is left out: {reason}")
    return [text for step in texts.values() for text in step], [
        *map(str, loaded.warnings),
        *left_out,
        *_underived(loaded),
    ]


def _objects(name: str, text: str) -> Iterator[tuple[str, JsonObject, str]]:
    """The place of each object in a file, the object, and its text; empty for an item of a List."""
    for before, chunk in yamltext.documents(text):
        for document in policyfiles.parse(chunk, name):
            for item in reader.objects([document]):
                yield f"{name}:{before + item.line}", item.value, chunk if item.value is document.value else ""


def _underived(loaded: Loaded) -> Iterator[str]:
    """A note for each policy that this service also applies to pod templates, unlike kube-apiserver."""
    bound = {binding.policy_name for binding in loaded.bindings if binding.kind == "ValidatingAdmissionPolicyBinding"}
    for policy in loaded.policies:
        ours = policy.kind == "ValidatingAdmissionPolicy" and policy.name in bound and is_derived(policy)
        if ours and covers_pods(policy.match_constraints):
            what = f"{policy.origin.file}:{policy.origin.line}: {policy.kind} {policy.name}"
            yield f"{what} also checks pod templates here; kube-apiserver checks only their Pods"


def _text(value: JsonObject, written: str) -> str:
    """An object without this service's annotations: as it was written, unless it is JSON or an item of a List.

    It is written anew, too, where the author's text cannot be kept, such as for an alias of what is cut out.
    """
    plain = _plain(value)
    if written and not written.lstrip().startswith("{"):
        with suppress(FileError):
            cut = yamltext.without(written, ("metadata", "annotations"), f"{_OWN}/")
            if harmless(cut) == cut and [one.value for one in yamlfile.load("<document>", cut)] == [plain]:
                return cut.strip("\n") + "\n"
    return to_yaml(plain)


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
