"""The real process, whose configuration changes while it serves."""

from pathlib import Path

import yaml
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named
from support.builders import pod
from support.service.installation import kubeconfig
from support.service.processes import Service, replace
from support.service.reviews import RESERVED, body

from policies.topology.annotation import TOPOLOGY
from policies.topology.objects import KAI


async def _allowed(service: Service) -> bool:
    """Whether a Pod with a reserved label is let in."""
    return bool((await service.answer(body(pod(labels=RESERVED))))["allowed"])


async def test_a_configuration_that_changes(tmp_path: Path) -> None:
    """A new content is served without a restart, a mistake changes nothing and is told, and the next one is served."""
    file = tmp_path / "cks.yaml"
    async with Service(tmp_path) as service:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
        found = [await _allowed(service)]

        replace(file, yaml.safe_dump({**settings, "labels": {"action": "audit"}}))
        loaded = await service.event("configuration loaded")
        found.append(await _allowed(service))

        replace(file, "labels: {action: nay}")
        refused = await service.event("configuration refused")
        found.append(await _allowed(service))
        ready = await service.ask("/readyz")
        measured = (await service.ask("/metrics")).body

        replace(file, yaml.safe_dump({**settings, "listen": {"port": 1}}))
        await service.event("configuration loaded", 2)
        waiting = await service.event("restart needed")
        found.append(await _allowed(service))

    assert found == [False, True, True, False]
    assert loaded["changed"] == ["labels.action"]
    reason = f"{file}:1: labels.action: input should be 'deny', 'warn', 'audit' or 'off', found 'nay'"
    assert refused["reason"] == reason
    note = f"ok\n- configuration: refused, what was loaded before stays in force:\n  {reason}\n"
    assert (ready.status, ready.text) == (200, note)
    assert b"\ncks_admission_configuration_refused 1.0\n" in measured
    assert waiting["keys"] == ["listen.host", "listen.port", "listen.drainSeconds"]


async def test_a_kind_of_workloads_that_is_added(tmp_path: Path) -> None:
    """Once the configuration knows a kind, whoever deletes a Topology is told of the objects of it that name that."""
    file, train = tmp_path / "cks.yaml", named("t", namespace="team")
    train["metadata"]["annotations"] = {TOPOLOGY: "racks"}
    topology = named("racks", spec={"levels": [{"nodeLabel": "example.org/rack"}]})
    deleted = {"apiVersion": f"{KAI}/v1alpha1", "kind": "Topology", **topology}
    resource = {"group": KAI, "version": "v1alpha1", "resource": "topologies"}
    kind = {"group": "example.org", "kind": "Train", "templates": ["spec.template"]}
    async with FakeApi() as api:
        api.put(NAMESPACES, named("team", {}))
        api.put(NODES, named("n1", {}))
        api.install(KAI, {"v1alpha1": {"topologies": "Topology"}}, namespaced=False)
        api.put(f"/apis/{KAI}/v1alpha1/topologies", topology)
        api.install("example.org", {"v1": {"trains": "Train"}})
        api.put("/apis/example.org/v1/trains", train)
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(api.url)), encoding="utf-8")

        async def warnings() -> list[str]:
            answer = await service.answer(body(None, deleted, operation="DELETE", namespace="", resource=resource))
            return list(answer.get("warnings", ()))

        cluster, policies = {"kubeconfig": str(tmp_path / "kubeconfig")}, {"native": False, "configMaps": False}
        async with Service(tmp_path, cluster=cluster, policies=policies) as service:
            found = [await warnings()]
            settings = yaml.safe_load(file.read_text(encoding="utf-8"))
            replace(file, yaml.safe_dump({**settings, "workloads": [kind]}))
            await service.event("configuration loaded")
            found.append(await warnings())

    warning = (
        'topology "racks" is named by Train team/t. Change or delete them first: Pods that wait would never be '
        "scheduled. Running ones go on. topology.deletion: deny refuses this."
    )
    assert found == [[], [warning]]
