"""Policies served from a directory, as kubectl shows them: reasons, places, an outage of the service, and reloads."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

import pytest
import yaml
from support.service.commands import run
from support.service.receiver import Receiver, receiver_aside

from certs.plan import replace_file
from cluster import manifests, workloads
from cluster.apicalls import Caller
from cluster.polling import NotYet
from cluster.service import registered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from cluster.kubectl import Completed
    from cluster.manifests import Manifest
    from cluster.service import Service

TEAM = "team-served"
STDIN = 'error when creating "STDIN"'


def _policy(name: str, resource: str, *validations: Manifest, fail: str = "Fail", derive: str = "true") -> str:
    """A policy about the creation of a resource of the core group, and its binding."""
    rule = manifests.rule(resource, operations=["CREATE"])
    documents = manifests.validating(name, rule, *validations, failurePolicy=fail)
    documents[0]["metadata"] = {"name": name, "annotations": {"cks-admission.dev/derive": derive}}
    return yaml.safe_dump_all(documents)


def _validation(expression: str, message: str, **more: str) -> Manifest:
    return {"expression": expression, "message": message, **more}


def _denied(name: str, message: str) -> str:
    return f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {message}"


REASONS = [
    _validation("!('secret' in object.data)", "No secrets here.", reason="Forbidden"),
    _validation("!('big' in object.data)", "Too big.", reason="RequestEntityTooLarge"),
    _validation("!('odd' in object.data)", "Not odd."),
    _validation("object.data.all(k, object.data[k].size() <= 3)", "At most 3 letters.", reason="Invalid"),
]
SILENCE = _validation("!('loud' in object.data)", "No noise.")
SERVICE: Manifest = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": workloads.metadata("main"),
    "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
}
GOOD = {"name": "main", "image": "a@sha256:0", "resources": {"limits": {"cpu": "1"}}}
LIMITS = _validation("object.spec.containers.all(c, has(c.resources.limits))", "Containers have limits.")
DIGEST = _validation(
    "object.spec.containers.all(c, c.image.contains('@'))", "Images have a digest.", reason="Forbidden"
)
POLICIES = [
    _policy("reasons", "configmaps", *REASONS),
    _policy("limits", "pods", LIMITS, fail="Ignore"),
    _policy("digest", "pods", DIGEST, fail="Ignore"),
    _policy("alone", "pods", _validation("!has(object.spec.hostname)", "No hostname."), derive="false"),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of policies: an empty one, for no policy may refuse the objects with which a start is awaited."""
    return tmp_path_factory.mktemp("policies")


@pytest.fixture(scope="module")
def shadow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of shadow policies: one of those in force, changed."""
    folder = tmp_path_factory.mktemp("shadow")
    _write(folder / "policies.yaml", _policy("reasons", "configmaps", SILENCE, *REASONS[:-1]))
    return folder


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decision log."""
    return tmp_path_factory.mktemp("decisions") / "log.jsonl"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A receiver of traces."""
    with receiver_aside() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def served(
    judged: ControlPlane, directory: Path, shadow: Path, decisions: Path, receiver: Receiver
) -> Iterator[Service]:
    """A service with these policies, and others in the shadow, that records whatever it decides about ConfigMaps."""
    samples = [{"verdicts": ["admit", "deny"], "rules": ["reasons"]}]
    with registered(
        judged,
        policies={"directories": [str(directory)], "shadow": [str(shadow)]},
        decisions={"log": str(decisions), "content": "objects", "samples": samples},
        tracing={"endpoint": receiver.address, "share": 0},
    ) as service:
        service.control_plane.namespace(TEAM)
        _write(directory / "policies.yaml", "---\n".join(POLICIES))
        _await(service, workloads.pod(""), _unfit("spec"))
        yield service


def _write(file: Path, text: str) -> None:
    """Write a file of policies at one stroke: half of one would be taken for all that there is."""
    replace_file(file, text.encode(), 0o600)


def _apply(service: Service, manifest: Manifest) -> Completed:
    return service.control_plane.apply(manifest, "-n", TEAM, "--dry-run=server")


def _config_map(**data: str) -> Manifest:
    return {**workloads.config_map(""), "data": data}


def _refused(reason: str, entry: str, *lines: str) -> str:
    """What kubectl prints of a refusal whose reason is not Invalid."""
    start = f'Error from server ({reason}): {STDIN}: admission webhook "{entry}.cks-admission.dev" denied the request: '
    return start + "\n".join(lines) + "\n"


def _unfit(path: str) -> str:
    """What kubectl prints of a Pod that has neither limits nor a digest, with its spec at a path."""
    image = """c.image.contains('@') is false (container "main"; c.image is "example.test/main:1")"""
    return _refused(
        "Forbidden",
        "policies-ignore",
        _denied("digest", "Images have a digest."),
        f"  {path}.containers[0].image: {image}",
        _denied("limits", "Containers have limits."),
        f"""  {path}.containers[0].resources: has(c.resources.limits) is false (container "main")""",
    )


_SECRET, _BIG, _ODD, _LONG = (_denied("reasons", str(each["message"])) for each in REASONS)


def _has(key: str, **data: str) -> str:
    """What kubectl prints below a denial of a ConfigMap that has a key."""
    return f"data: ('{key}' in object.data) is true (object.data is {json.dumps(data)})"


TOLD = {
    "nothing": ({"a": "b"}, ""),
    "forbidden": ({"secret": "x"}, _refused("Forbidden", "policies", _SECRET, f"  {_has('secret', secret='x')}")),
    "too large": ({"big": "x"}, _refused("RequestEntityTooLarge", "policies", _BIG, f"  {_has('big', big='x')}")),
    "invalid by default": ({"odd": "x"}, f"The request is invalid: data: {_ODD}\n{_has('odd', odd='x')}\n"),
    "invalid twice": (
        {"odd": "four"},
        (
            f"The request is invalid: \n* data: {_ODD}\n{_has('odd', odd='four')}\n* data.odd: {_LONG}\n"
            "data.odd: object.data[k].size() <= 3 is false (object.data[k].size() is 4)\n"
        ),
    ),
    "of two reasons": (
        {"odd": "x", "secret": "x"},
        _refused(
            "Forbidden",
            "policies",
            _SECRET,
            f"  {_has('secret', odd='x', secret='x')}",
            _ODD,
            f"  {_has('odd', odd='x', secret='x')}",
        ),
    ),
}


@pytest.mark.parametrize(("data", "said"), TOLD.values(), ids=TOLD)
def test_reasons(served: Service, data: dict[str, str], said: str) -> None:
    """A person reads the reason of a refusal, Forbidden where there are several; of Invalid it shows all the causes."""
    answer = _apply(served, _config_map(**data))

    assert (answer.returncode, answer.stderr) == (1 if said else 0, said)


def test_the_reason_that_no_policy_can_have(served: Service, directory: Path) -> None:
    """The API names Unauthorized as well, and refuses a policy that has it; the service does, in the same words."""
    text = _policy("fourth", "configmaps", _validation("false", "No.", reason="Unauthorized"))
    native = served.control_plane.apply(text, user="admin").stderr
    _write(directory / "fourth.yaml", text)
    ours = str(served.control_plane.wait_for("the refusal", lambda: served.events("policies refused"))[-1]["reason"])
    (directory / "fourth.yaml").unlink()

    words = (
        'spec.validations[0].reason: Unsupported value: "Unauthorized": '
        'supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"'
    )
    assert (native, ours.splitlines()[0].partition(": ")[2]) == (
        f'The ValidatingAdmissionPolicy "fourth" is invalid: {words}\n',
        words,
    )


WORKLOADS = {
    "spec": [workloads.pod("")],
    "spec.template.spec": [workloads.apps("Deployment", ""), workloads.apps("StatefulSet", ""), workloads.job("")],
}


@pytest.mark.parametrize("path", WORKLOADS)
def test_policies_on_pods(served: Service, path: str) -> None:
    """A workload whose Pods would be refused is refused itself, with every violation of every policy and its place."""
    answers = [_apply(served, manifest) for manifest in WORKLOADS[path]]

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(1, _unfit(path))] * len(answers)


def test_a_policy_on_pods_alone(served: Service) -> None:
    """With the annotation cks-admission.dev/derive "false" a policy refuses the Pod and admits the Deployment."""
    pod = workloads.pod("", containers=[GOOD], hostname="h")
    template = workloads.template(containers=[GOOD], hostname="h")
    deployment = workloads.apps("Deployment", "", template=template)

    said = [_apply(served, each).stderr for each in (pod, deployment)]

    denied = _denied("alone", "No hostname.")
    assert said == [f"The request is invalid: spec: {denied}\nspec: has(object.spec.hostname) is true\n", ""]


def test_a_deployment_is_told_what_its_replica_set_was(served: Service) -> None:
    """The Event on the ReplicaSet is its controller's; `kubectl describe deployment` shows the service's own."""
    template = workloads.template(containers=[GOOD], hostname="h")
    deployment = workloads.apps("Deployment", TEAM, template=template)
    deployment["metadata"]["name"] = "told"
    served.control_plane.objects.apply(deployment)

    def described() -> str:
        text = served.control_plane.kubectl("-n", TEAM, "describe", "deployment", "told", check=True).stdout
        if "CreationRefused" not in text:
            raise NotYet(text[-300:])
        return " ".join(text.split())

    shown = served.control_plane.wait_for("the Event", described)
    (replica_set,) = served.control_plane.objects.get("replicasets", "-n", TEAM, "-l", "app=main")["items"]
    name, denied = replica_set["metadata"]["name"], _denied("alone", "No hostname.")
    assert f"Pod of ReplicaSet {name} was refused: {denied} spec: has(object.spec.hostname) is true" in shown
    assert served.metric('cks_admission_refusal_events_total{outcome="written"}') == 1
    served.control_plane.objects.delete("deployment", "told", namespace=TEAM)


def test_a_trace_of_the_api_server_goes_on(served: Service, receiver: Receiver) -> None:
    """The span of the review is below that of the API server, which is below that of who asked it."""
    trace, parent = secrets.token_hex(16), secrets.token_hex(8)
    with Caller(served.control_plane) as caller:
        answer = caller.send(
            "POST", f"/api/v1/namespaces/{TEAM}/configmaps?dryRun=All", workloads.config_map("", "traced"),
            headers=[("traceparent", f"00-{trace}-{parent}-01")],
        )  # fmt: skip
    reviews = served.control_plane.wait_for("the trace", lambda: receiver.of(trace))

    assert answer.code == 201
    names = {review.attributes.get("cks_admission.name") for review in reviews if review.name == "review"}
    assert names == {"traced"}
    assert parent not in {review.parent for review in reviews}
    assert all(review.parent for review in reviews)


def test_an_outage(served: Service) -> None:
    """Without the service, what a policy with Fail concerns is refused by the API server, and all else passes."""
    served.kill()
    try:
        refused, passed = _apply(served, _config_map(a="b")), _apply(served, workloads.apps("Deployment", ""))
    finally:
        served.start()
    again = [_apply(served, each).stderr for each in (workloads.pod(""), workloads.apps("Deployment", ""))]

    address = served.url.removeprefix("https://")
    registered = served.control_plane.get("validatingwebhookconfiguration", "cks-admission")
    seconds = registered["webhooks"][0]["timeoutSeconds"]
    why = f'Post "{served.url}/validate/policies?timeout={seconds}s": dial tcp {address}: connect: connection refused'
    failed = f'failed calling webhook "policies.cks-admission.dev": failed to call webhook: {why}'
    assert refused.stderr == f"Error from server (InternalError): {STDIN}: Internal error occurred: {failed}\n"
    assert (passed.returncode, passed.stderr) == (0, "")
    assert again == [_unfit("spec"), _unfit("spec.template.spec")]


def test_a_reload(served: Service, directory: Path) -> None:
    """Files that come, change, break and go are seen by kubectl, for a kind that nobody was asked about before too."""
    file = directory / "services.yaml"

    def written(message: str) -> None:
        validation = _validation("has(object.spec.selector)", message, reason="Forbidden")
        _write(file, _policy("services", "services", validation))

    def refused(message: str) -> str:
        why = "  spec: has(object.spec.selector) is false"
        return _refused("Forbidden", "policies", _denied("services", message), why)

    assert _apply(served, SERVICE).stderr == ""
    written("No Services.")
    _await(served, SERVICE, refused("No Services."))
    written("None at all.")
    _await(served, SERVICE, refused("None at all."))
    before = len(served.events("policies refused"))
    _write(file, "kind: Broken")
    served.control_plane.wait_for("the refusal of the file", lambda: len(served.events("policies refused")) > before)
    assert _apply(served, SERVICE).stderr == refused("None at all.")
    file.unlink()
    _await(served, SERVICE, "")


def test_a_policy_that_is_tried(served: Service, shadow: Path, decisions: Path) -> None:
    """A changed shadow policy refuses nobody; what it would change it records, and replay says the same."""
    asked = {
        "tried-same": {"a": "b"},
        "tried-loud": {"loud": "x"},
        "tried-long": {"a": "four"},
        "tried-odd": {"odd": "x"},
    }
    changes = {"tried-loud": "refuse", "tried-long": "admit"}
    answers = {}
    for name, entries in asked.items():
        manifest = _config_map(**entries)
        manifest["metadata"] = {**manifest["metadata"], "name": name}
        answers[name] = _apply(served, manifest).returncode
    assert answers == {"tried-same": 0, "tried-loud": 0, "tried-long": 1, "tried-odd": 1}

    def records(event: str) -> list[Manifest]:
        lines = map(json.loads, decisions.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line["event"] == event and line["request"]["name"] in asked]

    served.control_plane.wait_for("the shadow", lambda: len(records("shadow decision")) >= len(changes))
    told = {line["request"]["name"]: line["shadow"][0]["outcome"] for line in records("shadow decision")}
    replayed = run("replay", str(decisions), "--policies", str(shadow), "-o", "json").stdout
    found = {line["name"]: line["outcome"] for line in map(json.loads, replayed.splitlines()[:-1])}
    assert {line["request"]["name"] for line in records("decision")} == asked.keys()
    assert (told, {name: outcome for name, outcome in found.items() if name in asked}) == (changes, changes)
    assert served.metric('cks_admission_shadow_decisions_total{outcome="refuse",policy="reasons"}') >= 1


def _await(service: Service, manifest: Manifest, said: str) -> None:
    """Wait until kubectl prints exactly this."""
    service.control_plane.wait_until(
        said or "nothing to be said", lambda: _apply(service, manifest), lambda answer: answer.stderr == said
    )
