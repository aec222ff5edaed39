"""The objects of a control plane over one kept connection: for set-up, clean-up, and waiting for a state.

A kubectl process costs a hundred times as much as a request. Use kubectl where the test is about its printed text.
"""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from cluster.apicalls import Caller
from cluster.kubectl import KubectlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cluster.apicalls import Answer
    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

_APPLY = "application/apply-patch+yaml"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_BACKGROUND = {"propagationPolicy": "Background"}
_OPTIONS = {"-n": "namespace", "--namespace": "namespace", "-l": "labelSelector", "--selector": "labelSelector"}
_MANAGED = "--show-managed-fields"


class MissingError(KubectlError):
    """There is no such object, or no such kind."""


@dataclass(frozen=True)
class Resource:
    """A resource as discovery tells of it. root: the path of its group and version."""

    root: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The group and the version, as objects name them."""
        return self.root.removeprefix("/apis/").removeprefix("/api/")

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of an object, or of all."""
        space = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{space}/{self.plural}" + (f"/{name}" if name else "")


class Objects:
    """Reads and writes objects as the administrator, or as anybody else by his name. For one thread."""

    def __init__(self, control_plane: ControlPlane) -> None:
        """Prepare it; the connection is opened by the first request."""
        self._caller = Caller(control_plane)
        self._by_name: dict[str, Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}

    def close(self) -> None:
        """Close the connection."""
        self._caller.__exit__(None, None, None)

    def forget(self) -> None:
        """Look for all kinds anew, of which some have come, gone, or changed their versions."""
        self._by_name, self._by_kind = {}, {}

    def get(self, *arguments: str) -> Manifest:
        """Return what `kubectl get ARGUMENTS -o json` prints: an object, or a list. Raises KubectlError."""
        names, options, managed = _parsed(arguments)
        namespace = options.pop("namespace", "default")
        query = "&".join(f"{key}={value.replace(',', '%2C')}" for key, value in options.items())
        targets = list(_targets(names))
        listed = [(kind, name) for kind, name in targets if not name]
        found: list[Manifest] = []
        for kind, name in targets:
            resource = self._named(kind)
            path = resource.path(namespace, name)
            body = self._require(self._caller.send("GET", f"{path}?{query}" if query else path), path)
            items = [body] if name else body["items"]
            found += [_shown(item, resource, managed=managed) for item in items]
        return found[0] if len(targets) == 1 and not listed else {"apiVersion": "v1", "kind": "List", "items": found}

    def find(self, *arguments: str) -> Manifest:
        """Return what `get` returns; nothing where an object is not there."""
        try:
            return self.get(*arguments)
        except MissingError:
            return {}

    def apply(
        self, manifests: str | Manifest | Sequence[Manifest], *, user: str = "", namespace: str = "default"
    ) -> list[Manifest]:
        """Apply objects on the server and return them; what others own is taken over. Raises KubectlError."""
        return [
            self._require(self.applied(each, user=user, namespace=namespace), str(each["metadata"]))
            for each in documents(manifests)
        ]

    def applied(
        self, manifest: Manifest, *, user: str = "", namespace: str = "default", dry_run: bool = False
    ) -> Answer:
        """Apply one object on the server and return the answer. Raises KubectlError for an unknown kind."""
        resource, metadata = self._of(manifest), manifest["metadata"]
        path = resource.path(metadata.get("namespace", namespace), metadata["name"])
        query = "fieldManager=kubectl&force=true" + ("&dryRun=All" if dry_run else "")
        return self._caller.send("PATCH", f"{path}?{query}", manifest, user=user, content_type=_APPLY)

    def create(self, manifest: Manifest, *, user: str = "", namespace: str = "default") -> Manifest:
        """Create an object and return it. Raises KubectlError."""
        path = self._of(manifest).path(manifest["metadata"].get("namespace", namespace))
        return self._require(self._caller.send("POST", path, manifest, user=user), path)

    def read(self, path: str) -> Manifest:
        """Return what there is at a path, as /openapi/v3. Raises KubectlError."""
        return self._require(self._caller.send("GET", path), path)

    def post(self, path: str, body: Mapping[str, Any]) -> Manifest:
        """Create something at a path, as a token of a service account. Raises KubectlError."""
        return self._require(self._caller.send("POST", path, body), path)

    def delete(self, kind: str, *names: str, namespace: str = "default") -> None:
        """Delete objects, and what they own after them, without waiting; what is gone already is no error."""
        for name in names:
            self._delete(self._named(kind).path(namespace, name))

    def delete_all(self, *kinds: str, namespace: str) -> None:
        """Delete all objects of these kinds in a Namespace, and what they own after them, without waiting."""
        for kind in kinds:
            self._delete(self._named(kind).path(namespace))

    def delete_manifests(self, manifests: str | Manifest | Sequence[Manifest], *, namespace: str = "default") -> None:
        """Delete the objects that manifests name, the last ones first, without waiting."""
        for each in reversed(list(documents(manifests))):
            metadata = each["metadata"]
            self._delete(self._of(each).path(metadata.get("namespace", namespace), metadata["name"]))

    def _delete(self, path: str) -> None:
        answer = self._caller.send("DELETE", path, _BACKGROUND)
        if answer.code != http.client.NOT_FOUND:
            self._require(answer, path)

    def _named(self, name: str) -> Resource:
        if name.lower() not in self._by_name:
            self._discover()
        try:
            return self._by_name[name.lower()]
        except KeyError:
            raise MissingError(f"the server does not have a resource type {name!r}") from None

    def _of(self, manifest: Manifest) -> Resource:
        key = manifest["apiVersion"], manifest["kind"]
        if key not in self._by_kind:
            self._discover()
        try:
            return self._by_kind[key]
        except KeyError:
            raise MissingError(f"the server does not have the kind {key[1]} of {key[0]}") from None

    def _discover(self) -> None:
        """Learn all resources: the one that comes first has the short name, as with kubectl."""
        self.forget()
        for root in ("/api", "/apis"):
            answer = self._require(self._caller.send("GET", root, accept=DISCOVERY), root)
            for item in answer["items"]:
                group = item["metadata"].get("name", "")
                for version in item["versions"]:
                    self._learn(f"{root}/{group}/{version['version']}" if group else "/api/v1", group, version)

    def _learn(self, root: str, group: str, version: Mapping[str, Any]) -> None:
        for told in version["resources"]:
            kind = told["responseKind"]["kind"]
            resource = Resource(root, told["resource"], kind, told["scope"] == "Namespaced")
            self._by_kind.setdefault((resource.api_version, kind), resource)
            for name in (told["resource"], told.get("singularResource", ""), kind.lower(), *told.get("shortNames", ())):
                for alias in (name, f"{name}.{group}", f"{name}.{version['version']}.{group}"):
                    self._by_name.setdefault(alias.lower(), resource)

    def _require(self, answer: Answer, what: str) -> Manifest:
        if answer.code >= http.client.BAD_REQUEST:
            kind = MissingError if answer.code == http.client.NOT_FOUND else KubectlError
            raise kind(f"{what}: {answer.code} {answer.body.get('message', answer.body)}")
        return answer.body


def documents(manifests: str | Manifest | Sequence[Manifest]) -> Iterator[Manifest]:
    """Return the objects of YAML text, of a list, or the one."""
    if isinstance(manifests, str):
        yield from (each for each in yaml.load_all(manifests, yaml.CSafeLoader) if each)
    elif isinstance(manifests, dict):
        yield manifests
    else:
        yield from manifests


def _parsed(arguments: Sequence[str]) -> tuple[list[str], dict[str, str], bool]:
    """Return the words, the options by the API's names, and whether managed fields are shown."""
    words: list[str] = []
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument in _OPTIONS:
            options[_OPTIONS[argument]] = next(rest)
        elif argument.startswith("--field-selector="):
            options["fieldSelector"] = argument.partition("=")[2]
        elif argument != _MANAGED:
            words.append(argument)
    return words, options, _MANAGED in arguments


def _targets(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return kinds and names: of `pods,jobs`, of `job/main pod/other`, of `pod one two`."""
    if "/" in words[0]:
        for word in words:
            kind, _, name = word.partition("/")
            yield kind, name
    else:
        for kind in words[0].split(","):
            yield from ((kind, name) for name in words[1:] or ("",))


def _shown(item: Manifest, resource: Resource, *, managed: bool) -> Manifest:
    """An object as kubectl shows it: with its kind, which items of a list lack, and without its managed fields."""
    if not managed:
        item["metadata"].pop("managedFields", None)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **item}
