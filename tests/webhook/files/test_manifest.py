"""Objects in files as people give them to kubectl, and the requests that the API server would make of them."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from support.builders import Json

from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from webhook.files import manifest
from webhook.files.manifest import Manifest, ManifestError

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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(_POD, [("a.yaml:1", _POD_READ)], id="one"),
        pytest.param(f"---\n# c\n{_POD}---\n\n{_POD}", [("a.yaml:3", _POD_READ), ("a.yaml:8", _POD_READ)], id="two"),
        pytest.param(
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}', [("a.yaml:1", _POD_READ)], id="json"
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n"
            "-\n  apiVersion: v1\n  kind: Node\n  metadata: {name: m}\n",
            [("a.yaml:4", _POD_READ), ("a.yaml:8", _named("m", "Node"))],
            id="list",
        ),
        pytest.param(
            "apiVersion: v1\nkind: PodList\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n",
            [("a.yaml:4", _POD_READ)],
            id="list-of-a-kind",
        ),
        pytest.param("apiVersion: v1\nkind: List\nitems: []\n", [], id="empty-list"),
        pytest.param(
            "apiVersion: x.org/v1\nkind: Menu\nitems: [soup]\n",
            [("a.yaml:1", {"apiVersion": "x.org/v1", "kind": "Menu", "items": ["soup"]})],
            id="items-of-no-list",
        ),
        pytest.param("", [], id="empty"),
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


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "hello\n",
            "a.yaml:1: not a Kubernetes object: a map with apiVersion, kind and metadata was expected",
            id="text",
        ),
        pytest.param(
            "\n- a\n",
            "a.yaml:2: not a Kubernetes object: a map with apiVersion, kind and metadata was expected",
            id="list",
        ),
        pytest.param(f"{_POD}---\na: b\n", "a.yaml:5: not a Kubernetes object: it has no apiVersion", id="no-version"),
        pytest.param("apiVersion: v1\n", "a.yaml:1: not a Kubernetes object: it has no kind", id="no-kind"),
        pytest.param("apiVersion: v1\nkind:\n", "a.yaml:1: not a Kubernetes object: it has no kind", id="kind-null"),
        pytest.param(
            "apiVersion: 1\nkind: Pod\n",
            "a.yaml:1: not a Kubernetes object: it has no apiVersion",
            id="version-a-number",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: [a]\n", "a.yaml:1: metadata must be a map", id="metadata-a-list"
        ),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata:\n", "a.yaml:1: metadata must be a map", id="metadata-null"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n- x\n",
            "a.yaml:6: not a Kubernetes object: a map with apiVersion, kind and metadata was expected",
            id="item",
        ),
    ],
)
def test_what_is_no_object_is_named_by_its_line(text: str, error: str) -> None:
    """A document that no kubectl would take is an error with file and line."""
    with pytest.raises(ManifestError) as caught:
        _read(text)

    assert str(caught.value) == error


def test_values_are_those_that_the_api_server_gets() -> None:
    """As for kubectl, keys are text, and what YAML takes for a date is text too."""
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {1: x, true: w, day: 2026-03-01, 2026-03-02: z}\n"
    )
    (read,) = _read(text)

    assert read.object["metadata"]["labels"] == {"1": "x", "true": "w", "day": "2026-03-01", "2026-03-02": "z"}


def _request(**changes: Any) -> Json:
    asked = AdmissionRequest(
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
    return {**asdict(asked), **changes}


def test_a_create_is_asked() -> None:
    """An object alone is a create by the person named, a dry run."""
    assert asdict(manifest.request(_POD_READ, None, user=_ALICE, namespace="team")) == _request()


def test_an_update_is_asked_where_there_is_an_old_object() -> None:
    """With the object as it was, it is an update."""
    found = manifest.request(_POD_READ, _named("a"), user=_ALICE, namespace="team", uid="7")

    assert asdict(found) == _request(uid="7", operation="UPDATE", old_object=_named("a"))


@pytest.mark.parametrize(
    ("api_version", "kind", "metadata", "namespace", "scope"),
    [
        pytest.param("v1", "Pod", {"name": "a"}, "team", "team", id="the-one-for-all"),
        pytest.param("v1", "Pod", {"name": "a", "namespace": "own"}, "own", "own", id="its-own"),
        pytest.param("v1", "Pod", {"name": "a", "namespace": ""}, "team", "team", id="an-empty-one"),
        pytest.param("v1", "Node", {"name": "a"}, "", "", id="cluster-scoped"),
        pytest.param("v1", "Node", {"name": "a", "namespace": "own"}, "", "", id="cluster-scoped-that-names-one"),
        pytest.param("v1", "Namespace", {"name": "a"}, "a", "", id="a-namespace-is-in-itself"),
        pytest.param("example.org/v1", "Train", {"name": "a"}, "team", "team", id="an-unknown-kind"),
        pytest.param("longhorn.io/v1beta2", "Node", {"name": "a"}, "team", "team", id="a-namespaced-kind-of-that-name"),
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


def test_a_name_that_is_to_be_made_is_empty() -> None:
    """With generateName there is no name yet, as in the API server's own request."""
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}

    found = manifest.request(obj, None, user=_ALICE, namespace="team")

    assert (found.name, found.display_name) == ("", "a-…")
