"""Reads policy documents from files, with the place of every part, and other objects beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from policies import rbac
from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin import table
from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document, Place, Problem
from policies.admissionpolicy.documents.document import Path as FieldPath
from policies.admissionpolicy.documents.reader import Loaded, Part
from policies.admissionpolicy.evaluation.inputs import KindScope, StaticParameters
from policies.admissionpolicy.model import Binding, ParamKind
from policies.admissionpolicy.schema import Schema
from policies.cel.environment import Dialect
from policies.engine.facts import NAME_LABEL, StaticFacts
from policies.engine.request import GroupVersionKind, JsonObject, mapping
from policies.kubernetes.release import NEWEST, Release
from policies.rbac import RbacError, Rights
from webhook.files import manifest, yamlfile, yamltext
from webhook.files.yamlfile import FileError


class PolicyFilesError(FileError):
    """Policies cannot be used. The text has all problems, each with file, line, column and field.

    problems: those of the documents; empty if they are about rights.
    """

    def __init__(self, text: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems


class PolicyFiles(NamedTuple):
    """The contents of policy files.

    loaded: policies, bindings, exceptions and other objects. parameters: these other objects, which bindings may name.
    namespaces: the Namespaces among them, by name. custom: the schemas of the CRDs among them. rights: what the RBAC
    objects among them allow; None if there are none. release: the one by whose rules the policies are judged.
    """

    loaded: Loaded
    parameters: StaticParameters
    namespaces: Mapping[str, JsonObject]
    custom: Mapping[GroupVersionKind, Schema]
    rights: Rights | None = None
    release: Release = NEWEST

    def facts(self, today: date) -> StaticFacts:
        """The facts for rules, as far as the files contain them."""
        labels = {
            name: {NAME_LABEL: name, **mapping(mapping(namespace, "metadata"), "labels")}
            for name, namespace in self.namespaces.items()
        }
        return StaticFacts(today, labels, decisions=self.rights, whole_namespaces=self.namespaces)

    def schema(self, kind: GroupVersionKind) -> Schema | None:
        """The schema of a kind: a built-in one, that of a CRD, or a generic one; None for options of a connection."""
        known = schema.built_in(kind, self.release) or self.custom.get(kind)
        return schema.unknown(kind) if known is None and kind.group else known


def texts(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names and texts of files, and of those in directories. Raises FileError, and OSError."""
    for file, named in ((file, Path(path)) for path in paths for file in files(path)):
        yield str(file), yamlfile.decoded(str(file), yamlfile.content(file, pipes=file == named))


def read(
    files: Iterable[tuple[str, str]],
    today: date | None = None,
    *,
    drafts: bool = False,
    release: Release = NEWEST,
    within: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> PolicyFiles:
    """The contents of files, given by names and texts. Raises FileError, as `of_parts` does.

    today: to warn of exceptions that end. drafts: whether a policy without a binding counts as if one denied, with a
    warning; else it is an error. Other objects are then read as the API server reads them, for no API server does.
    release: that of the API server that would take them. within: the block in which a file is compiled, by its name.
    """
    parts_read: list[Part] = []
    for name, text in files:
        with within(name):
            parts_read += parts(text, name, release)
    return of_parts(parts_read, today, drafts=drafts, release=release)


def of_parts(
    parts_read: Iterable[Part], today: date | None = None, *, drafts: bool = False, release: Release = NEWEST
) -> PolicyFiles:
    """The contents of files; see `read`. Raises PolicyFilesError."""
    loaded = reader.together(parts_read, today, complete=not drafts)
    if loaded.errors:
        raise PolicyFilesError("\n".join(map(str, loaded.errors)), loaded.errors)
    try:
        contents = _as_drafts(loaded, release) if drafts else of(loaded, release)
        return contents._replace(rights=rbac.read(loaded.context, release))
    except RbacError as error:
        raise PolicyFilesError(str(error)) from None


def _as_drafts(loaded: Loaded, release: Release) -> PolicyFiles:
    """The contents with parameters and Namespaces as the API server reads them.

    A policy without a binding has one that denies wherever the policy matches.
    """
    bound = {(binding.kind, binding.policy_name) for binding in loaded.bindings}
    added = [
        Binding(
            kind="MutatingAdmissionPolicyBinding" if mutates else "ValidatingAdmissionPolicyBinding",
            name=policy.name,
            policy_name=policy.name,
            validation_actions=frozenset() if mutates else frozenset({"Deny"}),
            origin=policy.origin,
        )
        for policy, mutates in ((policy, policy.kind == "MutatingAdmissionPolicy") for policy in loaded.policies)
        if (f"{policy.kind}Binding", policy.name) not in bound
    ]
    files = of(replace(loaded, bindings=(*loaded.bindings, *added)), release)

    def read_(obj: Mapping[str, Any]) -> JsonObject:
        known = files.schema(kind_of(obj))
        return dict(obj) if known is None else received(dict(obj), known)

    parameters = StaticParameters([read_(obj) for obj in files.parameters.objects], files.parameters.scopes)
    namespaces = {name: read_(namespace) for name, namespace in files.namespaces.items()}
    return files._replace(parameters=parameters, namespaces=namespaces)


def of(loaded: Loaded, release: Release = NEWEST) -> PolicyFiles:
    """The contents of documents without errors, whose policies are judged by the rules of a release."""
    objects = tuple(
        value
        for value in (document.value for document in loaded.context if isinstance(document.value, dict))
        if isinstance(value.get("apiVersion"), str)
        and isinstance(value.get("kind"), str)
        and isinstance(value.get("metadata"), dict)
    )
    definitions = [value.get("spec") or {} for value in objects if value["kind"] == "CustomResourceDefinition"]
    parameters = StaticParameters(objects, _scopes(objects, definitions))
    namespaces = {
        str(value["metadata"].get("name", "")): value
        for value in objects
        if (value["apiVersion"], value["kind"]) == ("v1", "Namespace")
    }
    return PolicyFiles(loaded, parameters, namespaces, custom(definitions), release=release)


def parse(content: bytes | str, name: str) -> list[Document]:
    """The documents in a file. Raises FileError."""
    text = yamlfile.decoded(name, content)
    lines = text.splitlines()
    return [_document(document, lines) for document in yamlfile.load(name, text)]


def parts(content: bytes | str, name: str, release: Release = NEWEST) -> tuple[Part, ...]:
    """The objects in a file, each read independently as an API server of a release takes it. Raises FileError."""
    dialect = Dialect(release)
    return tuple(part for document in parse(content, name) for part in reader.parts(document, dialect))


def is_suite(file: Path) -> bool:
    """Whether the name of a file is that of a suite: suite.yaml or *.suite.yaml."""
    return file.name == "suite.yaml" or file.name.endswith(".suite.yaml")


def files(path: str) -> Iterator[Path]:
    """The file, or the files below a directory, except suites. Raises OSError."""
    named = Path(path)
    return (file for file in manifest.followed(path) if file == named or not is_suite(file))


def _document(document: yamlfile.YamlDocument, lines: Sequence[str]) -> Document:
    root = document.node

    def places(path: FieldPath) -> Place:
        node = yamlfile.nearest(root, path)[1]
        place = node.start_mark.line + 1, node.start_mark.column + 1
        return yamltext.scalar_place(lines, *place) if isinstance(node, yaml.ScalarNode) else place

    def keys(path: FieldPath) -> Place:
        key, node = yamlfile.nearest(root, path)
        mark = (key or node).start_mark
        return mark.line + 1, mark.column + 1

    def inside(path: FieldPath, offset: int) -> Place:
        node = yamlfile.nearest(root, path)[1]
        mark = node.start_mark
        return yamltext.place_inside(lines, mark.line + 1, mark.column + 1, node.value, offset)

    return Document(
        value=document.value, name=document.name, line=document.line(), places=places, keys=keys, inside=inside
    )


def _scopes(
    objects: Iterable[Mapping[str, Any]], definitions: Iterable[Mapping[str, Any]]
) -> Mapping[ParamKind, KindScope]:
    """The scopes of all known kinds: built-in ones, those of the objects, and those of CRDs among the objects."""
    scopes: dict[ParamKind, KindScope] = {
        ParamKind(api_version=f"{known.group}/{known.version}".lstrip("/"), kind=known.kind.kind): known.scope
        for known in table.served_resources()
        if "/" not in known.name
    }
    for value in objects:
        group = value["apiVersion"].rpartition("/")[0]
        scope: KindScope = "Cluster" if value["kind"] in manifest.CLUSTER_SCOPED.get(group, ()) else "Namespaced"
        scopes.setdefault(ParamKind(api_version=value["apiVersion"], kind=value["kind"]), scope)
    for spec in definitions:
        scope = "Cluster" if spec.get("scope") == "Cluster" else "Namespaced"
        for kind, _ in _versions(spec):
            scopes[ParamKind(api_version=f"{kind.group}/{kind.version}", kind=kind.kind)] = scope
    return scopes


def custom(definitions: Iterable[Mapping[str, Any]]) -> Mapping[GroupVersionKind, Schema]:
    """The schemas of custom resources, from the specs of their CustomResourceDefinitions."""
    return {
        kind: schema.of_custom_resource(kind, (version.get("schema") or {}).get("openAPIV3Schema"))
        for spec in definitions
        for kind, version in _versions(spec)
    }


def _versions(spec: Mapping[str, Any]) -> Iterator[tuple[GroupVersionKind, Mapping[str, Any]]]:
    kind = str((spec.get("names") or {}).get("kind", ""))
    for version in spec.get("versions") or ():
        yield GroupVersionKind(str(spec.get("group")), str(version.get("name")), kind), version
