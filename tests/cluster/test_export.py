"""Exported policies on a real API server: kubectl applies them unchanged, and they work without this service."""

from __future__ import annotations

import http.client
import json
import re
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace
from support.policies import packs

from cluster.apicalls import Answer, Caller
from policies.admissionpolicy.rules.suiterun import SuiteRun
from policies.conversion import convert
from policies.suite import CaseNamespace, CaseUser, read
from webhook.cli.main import main
from webhook.sources import policyfiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.controlplane import ControlPlane
    from policies.suite import Case

Json = dict[str, Any]
_POLICIES = Path(__file__).parents[2] / "policies"
_EXAMPLE = _POLICIES / "examples" / "interruptable-defaults"
_SUITE = read(yaml.safe_load((_EXAMPLE / "suite.yaml").read_text(encoding="utf-8")))
_NATIVE = [case for case in _SUITE.cases if not case.derived]
_OWN = ("uid", "creationTimestamp", "managedFields", "generation")
_PLURALS = {"Pod": "/api/v1/namespaces/{}/pods", "Deployment": "/apis/apps/v1/namespaces/{}/deployments"}


def _refused() -> dict[str, Case]:
    """A Pod of each pack that its policy refuses to anybody, with the parameters that are shipped."""
    return {
        policy.name: case
        for policy, case in reversed(packs.cases())
        if case.expect.messages and case.object and case.object["kind"] == "Pod" and case.operation == "CREATE"
        if (case.user, case.namespace, case.params) == (CaseUser(), CaseNamespace(), {})
    }


def _first(case: Case) -> str:
    """The first message of a case, without the places that the service adds."""
    return case.expect.messages[0].partition("\n")[0]


class Cluster:
    """The API server, asked by dry runs in a Namespace."""

    def __init__(self, control_plane: ControlPlane, caller: Caller, namespace: str) -> None:
        """Prepare nothing."""
        self.control_plane, self.namespace, self._caller = control_plane, namespace, caller

    def create(self, obj: Any) -> Answer:
        """What comes of creating an object."""
        path = _PLURALS[obj["kind"]].format(self.namespace)
        placed = {**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}}
        return self._caller.send("POST", f"{path}?dryRun=All", placed, user="alice")

    def wait(self, obj: Any, seen: Callable[[Answer], bool]) -> None:
        """Wait until creating an object is answered in some way."""
        self.control_plane.wait_until(
            f"{obj['kind']} {obj['metadata']['name']} to be answered otherwise",
            lambda: self.create(obj),
            seen,
        )


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    """The API server, before any policy."""
    name = f"export-{secrets.token_hex(4)}"
    control_plane.namespace(name)
    with Caller(control_plane) as caller:
        yield Cluster(control_plane, caller, name)
    control_plane.objects.delete("namespace", name)


@pytest.fixture(scope="module")
def plain(cluster: Cluster) -> dict[str, Json]:
    """The objects of the example's cases as the API server has them without policies, its defaults filled in."""
    return {case.name: _comparable(cluster.create(case.object).body) for case in _NATIVE}


@pytest.fixture(scope="module")
def applied(cluster: Cluster, plain: dict[str, Json]) -> Iterator[str]:
    """What kubectl says of applying all that `export native` prints; once it is in force, until the module's end."""
    result = CliRunner().invoke(main, ["export", "native", str(_POLICIES / "packs"), str(_EXAMPLE)])
    assert result.exit_code == 0, result.output
    control_plane = cluster.control_plane
    refused = [case for case in (*_NATIVE, *_refused().values()) if case.expect.verdict == "denied"]
    changed = _NATIVE[0]
    before = _filled_in(plain[changed.name])
    try:
        printed = control_plane.apply(result.stdout, user="admin", check=True).stdout
        for case in refused:
            cluster.wait(case.object, partial(_says, _first(case)))
        cluster.wait(
            changed.object,
            lambda answer: answer.code == http.client.CREATED and not _filled_in(answer.body).items() & before.items(),
        )
        yield printed
    finally:
        control_plane.kubectl("delete", "-f", "-", user="admin", input=result.stdout, check=True)
        for case in refused:
            cluster.wait(case.object, lambda answer: answer.code == http.client.CREATED)
        cluster.wait(changed.object, lambda answer: _filled_in(answer.body) == before)


def test_the_api_server_takes_what_is_converted(cluster: Cluster) -> None:
    """Policies of Kyverno and Gatekeeper, turned, are taken as they are, those left out that are said to be lost."""
    foreign = Path(__file__).parents[1] / "policies" / "foreign.yaml"
    refused = {}
    for entry in yaml.safe_load(foreign.read_text(encoding="utf-8")):
        for document, conversion in zip(entry["documents"], convert(entry["documents"]), strict=True):
            for obj in conversion.objects:
                answer = cluster.control_plane.objects.applied(obj, dry_run=True)
                if answer.code >= http.client.BAD_REQUEST:
                    refused[document["metadata"]["name"]] = answer.body["message"]

    assert list(refused) == ["from-api"]
    assert "undeclared reference to 'resource'" in refused["from-api"]


def test_kubectl_applies_what_is_exported(applied: str) -> None:
    """Parameters, then policies, then bindings, every one of them taken as it is, and without a warning."""
    kinds = [line.split("/")[0].partition(".")[0] for line in applied.splitlines()]
    steps = ["configmap", "admissionpolicy", "admissionpolicybinding"]
    found = [next(step for step in reversed(steps) if step in kind) for kind in kinds]

    assert found == sorted(found, key=steps.index)
    assert set(found) == set(steps)
    assert re.findall(r"(\w+)$", applied, re.MULTILINE) == ["created"] * len(kinds)


@pytest.mark.parametrize(("policy", "case"), _refused().items(), ids=_refused())
def test_a_pack_refuses_without_the_service(cluster: Cluster, applied: str, policy: str, case: Case) -> None:
    """A person with kubectl reads the message of the policy, as its suite has it."""
    del applied, policy
    obj = {**(case.object or {}), "metadata": {**(case.object or {})["metadata"], "namespace": cluster.namespace}}

    said = cluster.control_plane.apply(obj, "--dry-run=server")

    assert (said.returncode, _first(case) in said.stderr) == (1, True), said.stderr


@pytest.mark.parametrize("case", _NATIVE, ids=lambda case: case.name)
def test_an_example_does_there_what_its_suite_says(
    cluster: Cluster, plain: dict[str, Json], applied: str, case: Case
) -> None:
    """An object comes out as our engine makes it of the one with the API server's defaults, or is refused alike."""
    del applied
    given = plain[case.name]
    files = policyfiles.read(policyfiles.texts([str(_EXAMPLE)]))
    ours = SuiteRun(files.loaded, files.parameters, schemas=files.schema).outcome(
        replace(case, object=given, namespace=CaseNamespace(name=cluster.namespace))
    )

    there = cluster.create(case.object)

    assert (ours.verdict, ours.messages) == (case.expect.verdict, case.expect.messages)
    if case.expect.verdict == "denied":
        assert there.body["message"].endswith(f"denied request: {_first(case)}")
    else:
        assert _comparable(there.body) == {
            key: value for key, value in (ours.patched or given).items() if key != "status"
        }
        assert (ours.patched is None) == (case.expect.patched is None)


def _says(message: str, answer: Answer) -> bool:
    """Whether a policy refuses by its message; while its parameters are not read yet, it refuses by another one."""
    return answer.code != http.client.CREATED and message in answer.body["message"]


def _filled_in(pod: Json) -> dict[str, str]:
    """What the policies of the example fill in, one each."""
    return {field: json.dumps(pod["spec"].get(field)) for field in ("terminationGracePeriodSeconds", "tolerations")}


def _comparable(obj: Json) -> Json:
    """An object without what the API server gives each one anew, and the status, which it sets before admission."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _OWN}
    return {key: value for key, value in {**obj, "metadata": metadata}.items() if key != "status"}
