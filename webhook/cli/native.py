"""`cks-admission convert`, `export native` and `export static`: policies in Kubernetes' form, of others or of here.

Kubernetes 1.37 and later read policies and webhook configurations from files, out of the reach of everybody in the
cluster (KEP-5793): those of a plugin from a directory of its own, without parameters, webhooks by URL, names with an
ending that no other object may have. A plugin has one file here, because all that belongs together is then replaced at
once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date
from itertools import accumulate
from pathlib import Path
from typing import Final

import click

from certs.plan import replace_file
from policies import rbac
from policies.admissionpolicy.derivation import is_derived
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import KINDS, Document
from policies.admissionpolicy.documents.document import Path as FieldPath
from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.rules.policyrule import covers_pods
from policies.conversion import Conversion, is_foreign
from policies.conversion import convert as conversions
from policies.engine.request import JsonObject, mapping
from policies.engine.violation import printable
from policies.kubernetes.release import Release
from policies.labels import RULE
from policies.objects.fieldpath import render
from webhook.cli import options
from webhook.cli.output import OK, REFUSED, InputError, bounded, harmless, reading, say, to_yaml, write_text
from webhook.configuration.settings import Settings
from webhook.files import yamlfile, yamltext
from webhook.files.yamlfile import FileError
from webhook.registration.configurations import STATIC, static_policies
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
    sys.exit(REFUSED if is_lost else OK)


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
        documents = [
            (before, chunk, document)
            for before, chunk in yamltext.documents(text)
            for document in policyfiles.parse(chunk, name)
        ]
        items = ((*document, item) for document in documents for item in reader.objects([document[-1]]))
        for before, chunk, document, item in items:
            where, value = f"{name}:{before + item.line}", item.value
            written = chunk if value is document.value else ""  # not the one of a List
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
    # The policies that this service also applies to pod templates, unlike kube-apiserver.
    bound = {binding.policy_name for binding in loaded.bindings if binding.kind == "ValidatingAdmissionPolicyBinding"}
    derived = [
        f"{policy.origin.file}:{policy.origin.line}: {policy.kind} {policy.name} also checks pod templates here; "
        "kube-apiserver checks only their Pods"
        for policy in loaded.policies
        if policy.kind == "ValidatingAdmissionPolicy" and policy.name in bound and is_derived(policy)
        if covers_pods(policy.match_constraints)
    ]
    return [text for step in texts.values() for text in step], [*map(str, loaded.warnings), *left_out, *derived]


def _text(value: JsonObject, written: str) -> str:
    """An object without this service's annotations: as it was written, unless it is JSON or an item of a List.

    It is written anew, too, where the author's text cannot be kept, such as for an alias of what is cut out.
    """
    metadata = value["metadata"]
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        kept = {key: item for key, item in annotations.items() if not key.startswith(f"{_OWN}/")}
        if kept != annotations:
            rest = {key: item for key, item in metadata.items() if key != "annotations"}
            value = {**value, "metadata": {**rest, "annotations": kept} if kept else rest}
    if written and not written.lstrip().startswith("{"):
        with suppress(FileError):
            cut = yamltext.without(written, ("metadata", "annotations"), f"{_OWN}/")
            if harmless(cut) == cut and [one.value for one in yamlfile.load("<document>", cut)] == [value]:
                return cut.strip("\n") + "\n"
    return to_yaml(value)


_POLICY, _WEBHOOK = "AdmissionPolicy", "AdmissionWebhook"
_PLUGINS: Final = tuple(f"{phase}{kind}" for kind in (_POLICY, _WEBHOOK) for phase in ("Validating", "Mutating"))
_VERSION: Final = "apiserver.config.k8s.io/v1"
_LONGEST_NAME: Final = 253


def in_files(
    settings: Settings, files: Iterable[tuple[str, str]], release: Release, today: date
) -> tuple[list[JsonObject], list[str]]:
    """The guard and the policies of files, each with its bindings, and a line for each omission.

    Raises InputError and FileError for what an API server of that release would not start with.
    """
    if not release.reserves_static_names:
        instead = "apply what cks-admission export native prints, and let the service write the guard"
        raise InputError(f"Kubernetes {release.name} reads no policies from files, 1.37 and later do; {instead}")
    guards, notes = static_policies(settings), []
    if not guards:
        notes = [f"the guard is left out: labels.action is {settings.labels.action}, not deny"]
    policyfiles.read([("the guard", "---\n".join(map(to_yaml, guards)))], release=release, within=bounded)
    texts, more = exported(files, release)
    documents = [document.value for text in texts for document in yamlfile.load("a policy", text)]
    parametric = dict.fromkeys(one["metadata"]["name"] for one in documents if "paramKind" in mapping(one, "spec"))
    notes += [
        f"exceptions[{index}] is left out: in a file it would have no end"
        for index, one in enumerate(settings.exceptions)
        if RULE in one.rules and one.until >= today
    ]
    notes += [*more, *(f"policy {name} is left out: in files policies have no parameters" for name in parametric)]
    kept = (
        one
        for one in documents
        if one["kind"].removesuffix("Binding") in _PLUGINS
        and one["spec"].get("policyName", one["metadata"]["name"]) not in parametric
    )
    return [*guards, *kept], notes


def write_files(directory: Path, objects: Iterable[JsonObject], release: Release) -> None:
    """Write a folder with a file for each plugin, and the AdmissionConfiguration that names the folders.

    An API server may read any of them at any moment. Raises InputError for a name that is too long, and StoreError.
    """
    by_plugin: dict[str, list[str]] = {}
    for one in objects:
        plugin = one["kind"].removesuffix("Binding").replace("WebhookConfiguration", _WEBHOOK)
        # It has, and the policy that it binds, the name that is for files.
        name = f"{one['metadata']['name']}{STATIC}"
        if len(name) > _LONGEST_NAME:
            most = _LONGEST_NAME - len(STATIC)
            raise InputError(f"{one['kind']} {name}: of a policy in a file the name has {most} characters at most")
        named = {**one, "metadata": {**one["metadata"], "name": name}}
        if bound := mapping(one, "spec").get("policyName"):
            named["spec"] = {**one["spec"], "policyName": f"{bound}{STATIC}"}
        by_plugin.setdefault(plugin, []).append(to_yaml(named))
    configured = []
    for plugin in _PLUGINS:
        folder = directory.absolute() / plugin
        file = folder / "cks-admission.yaml"
        if texts := by_plugin.get(plugin):
            folder.mkdir(parents=True, exist_ok=True)
            # Each change in the folder makes kube-apiserver compile all policies, which takes it a second.
            replace_file(file, "---\n".join(texts).encode(), 0o644, directory / f".{plugin}.new")
            kind = f"{'WebhookAdmission' if plugin.endswith(_WEBHOOK) else plugin}Configuration"
            folders = {"apiVersion": _VERSION, "kind": kind, "staticManifestsDir": str(folder)}
            if plugin == "MutatingAdmissionWebhook" and release.orders_static_webhooks:
                folders["staticOrder"] = "ByName"  # the place among other webhooks that a registered one has
            configured.append({"name": plugin, "configuration": folders})
        else:
            file.unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    whole = {"apiVersion": _VERSION, "kind": "AdmissionConfiguration", "plugins": configured}
    replace_file(directory / "admission.yaml", to_yaml(whole).encode(), 0o644)
