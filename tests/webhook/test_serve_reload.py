"""The real process, whose configuration and certificates change while it serves."""

from datetime import UTC, datetime
from pathlib import Path

import yaml
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named
from support.builders import pod
from support.service.installation import kubeconfig
from support.service.processes import Service, replace
from support.service.reviews import RESERVED, body

from certs.material import new_authority
from policies.topology.objects import KAI
from policies.topology.placement import TOPOLOGY


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


async def _shown(service: Service) -> str:
    """What a new connection is shown; a review on it is answered."""
    async with service.connection() as wire:
        assert (await wire.call(body(pod()))).status == 200
        return wire.shown()


async def test_new_connections_see_the_new_pair_and_open_ones_go_on(tmp_path: Path) -> None:
    """A pair that is swapped on disk is shown to whoever connects next; a connection that is open serves as before."""
    now = datetime.now(UTC)
    authority = new_authority(now)
    old, new = (authority.issue(["localhost", "127.0.0.1"], now) for _ in range(2))
    cert, key = tmp_path / "served.crt", tmp_path / "served.key"
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca-bundle.crt").write_bytes(authority.cert_pem)
    replace(key, old.key_pem)
    replace(cert, old.cert_pem)
    async with (
        Service(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)) as service,
        service.connection() as wire,
    ):
        assert (await wire.call(body(pod()))).status == 200
        first = await _shown(service)
        replace(key, new.key_pem)
        replace(cert, new.cert_pem)
        await service.event("certificate served", 2)
        second = await _shown(service)
        after = await wire.call(body(pod(), uid="after"))
        kept = wire.shown()

    assert (first, second, kept) == (old.fingerprint, new.fingerprint, old.fingerprint)
    assert (after.status, after.closes) == (200, False)


async def test_its_own_pair_is_made_again_while_it_serves(tmp_path: Path) -> None:
    """A pair of the service's own that is lost is replaced, and shown by a CA that clients trust."""
    async with Service(tmp_path) as service:
        await service.event("serving")
        first = await _shown(service)
        for name in ("tls.crt", "tls.key"):
            (service.certs / name).unlink()
        await service.event("certificate served", 2)
        second = await _shown(service)

    assert first != second
