"""Objects in files as people give them to kubectl, and the requests that the API server would make of them."""

import json
from pathlib import Path

import pytest
from msgspec.structs import asdict
from support.builders import Json

from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from webhook.files import manifest
from webhook.files.manifest import Manifest
from webhook.files.yamlfile import FileError

_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
_POD_READ = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
_ALICE = UserInfo("alice")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def _read(text: str, name: str = "a.yaml") -> list[Manifest]:
    Path(name).write_text(text, encoding="utf-8")
    return list(manifest.read([name]))


def _named(name: str, kind: str = "Pod") -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


_LIST = "apiVersion: v1\nkind: List\nitems:"
_ITEM = "\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}"
_OTHER = "\n-\n  apiVersion: v1\n  kind: Node\n  metadata: {name: m}\n"
_MENU = {"apiVersion": "x.org/v1", "kind": "Menu", "items": ["soup"]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (_POD, [("a.yaml:1", _POD_READ)]),
        (f"---\n# c\n{_POD}---\n\n{_POD}", [("a.yaml:3", _POD_READ), ("a.yaml:8", _POD_READ)]),
        (json.dumps(_POD_READ), [("a.yaml:1", _POD_READ)]),
        (f"{_LIST}{_ITEM}{_OTHER}", [("a.yaml:4", _POD_READ), ("a.yaml:8", _named("m", "Node"))]),
        (f"{_LIST}{_ITEM}".replace("List", "PodList"), [("a.yaml:4", _POD_READ)]),
        (f"{_LIST} []\n", []),
        ("apiVersion: x.org/v1\nkind: Menu\nitems: [soup]\n", [("a.yaml:1", _MENU)]),
    ],
)
def test_objects_are_read_with_their_lines(text: str, found: list[tuple[str, Json]]) -> None:
    """Every document and every item of a list is an object with the line on which it starts."""
    assert [(m.where, m.object) for m in _read(text)] == found


def test_a_directory_is_read_by_name() -> None:
    """A directory gives the objects of its YAML and JSON files and of those below, in the order of their names."""
    for name in ("b.yaml", "a.yml", "c/d.json", "c/e.txt", "README.md"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(_POD, encoding="utf-8")
    Path("x.yaml").mkdir()

    assert [m.where for m in manifest.read(["."])] == ["a.yml:1", "b.yaml:1", "c/d.json:1"]
    assert [m.where for m in manifest.read(["c", "c/e.txt", "b.yaml"])] == ["c/d.json:1", "c/e.txt:1", "b.yaml:1"]


def test_standard_input_is_read_where_it_is_named() -> None:
    """A dash stands for the text of standard input, among files too."""
    Path("b.yaml").write_text(_POD, encoding="utf-8")

    assert [m.where for m in manifest.read(["b.yaml", "-"], (_POD + "---\n" + _POD).encode())] == [
        "b.yaml:1",
        "stdin:1",
        "stdin:5",
    ]


_NO_OBJECT = "not a Kubernetes object:"
_NO_MAP = f"{_NO_OBJECT} a map with apiVersion, kind and metadata was expected"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("hello\n", f"1: {_NO_MAP}"),
        ("\n- a\n", f"2: {_NO_MAP}"),
        (f"{_POD}---\na: b\n", f"5: {_NO_OBJECT} it has no apiVersion"),
        ("apiVersion: v1\n", f"1: {_NO_OBJECT} it has no kind"),
        ("apiVersion: v1\nkind:\n", f"1: {_NO_OBJECT} it has no kind"),
        ("apiVersion: 1\nkind: Pod\n", f"1: {_NO_OBJECT} it has no apiVersion"),
        ("apiVersion: v1\nkind: Pod\nmetadata: [a]\n", "1: metadata must be a map"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n", "1: metadata must be a map"),
        (f"{_LIST}{_ITEM}\n- x\n", f"7: {_NO_MAP}"),
    ],
)
def test_what_is_no_object_is_named_by_its_line(text: str, error: str) -> None:
    """A document that no kubectl would take is an error with file and line."""
    with pytest.raises(FileError) as caught:
        _read(text)

    assert str(caught.value) == f"a.yaml:{error}"


def test_a_request_is_that_of_the_api_server() -> None:
    """An object alone is a create by the person named, a dry run; with the object as it was, it is an update."""
    created = manifest.request(_POD_READ, None, user=_ALICE, namespace="team")
    updated = manifest.request(_POD_READ, _named("a"), user=_ALICE, namespace="team", uid="7")

    assert asdict(created) == asdict(
        AdmissionRequest(
            uid="check",
            kind=GroupVersionKind("", "v1", "Pod"),
            resource=GroupVersionResource("", "v1", "pods"),
            name="a",
            namespace="team",
            operation="CREATE",
            user_info=_ALICE,
            object=_POD_READ,
            dry_run=True,
        )
    )
    assert asdict(updated) == {**asdict(created), "uid": "7", "operation": "UPDATE", "old_object": _named("a")}


@pytest.mark.parametrize(
    ("api_version", "kind", "metadata", "namespace", "scope"),
    [
        ("v1", "Pod", {"name": "a"}, "team", "team"),
        ("v1", "Pod", {"name": "a", "namespace": "own"}, "own", "own"),
        ("v1", "Pod", {"name": "a", "namespace": ""}, "team", "team"),
        ("v1", "Node", {"name": "a"}, "", ""),
        ("v1", "Node", {"name": "a", "namespace": "own"}, "", ""),
        ("v1", "Namespace", {"name": "a"}, "a", ""),
        ("example.org/v1", "Train", {"name": "a"}, "team", "team"),
        ("longhorn.io/v1beta2", "Node", {"name": "a"}, "team", "team"),
    ],
)
def test_an_object_has_its_namespace(api_version: str, kind: str, metadata: Json, namespace: str, scope: str) -> None:
    """The namespace is the object's own, else the one given; cluster-scoped kinds have none."""
    obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata}

    found = manifest.request(obj, None, user=_ALICE, namespace="team")

    assert (found.namespace, found.scope_namespace, found.name) == (namespace, scope, "a")


@pytest.mark.parametrize(
    ("api_version", "kind", "resource"),
    [
        ("v1", "Pod", ("", "v1", "pods")),
        ("v1", "Endpoints", ("", "v1", "endpoints")),
        ("apps/v1", "Deployment", ("apps", "v1", "deployments")),
        ("networking.k8s.io/v1", "Ingress", ("networking.k8s.io", "v1", "ingresses")),
        ("networking.k8s.io/v1", "NetworkPolicy", ("networking.k8s.io", "v1", "networkpolicies")),
        ("gateway.networking.k8s.io/v1", "Gateway", ("gateway.networking.k8s.io", "v1", "gateways")),
        ("storage.k8s.io/v1", "StorageClass", ("storage.k8s.io", "v1", "storageclasses")),
        ("batch/v1", "CronJob", ("batch", "v1", "cronjobs")),
        ("example.org/v1beta1", "Box", ("example.org", "v1beta1", "boxes")),
        ("example.org/v1", "Batch", ("example.org", "v1", "batches")),
    ],
)
def test_a_resource_is_guessed_from_its_kind(api_version: str, kind: str, resource: tuple[str, str, str]) -> None:
    """The plural is made as Kubernetes makes it."""
    obj = {"apiVersion": api_version, "kind": kind}

    found = manifest.request(obj, None, user=_ALICE, namespace="team")

    assert (found.resource, found.name) == (GroupVersionResource(*resource), "")
