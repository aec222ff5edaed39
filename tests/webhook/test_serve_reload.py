"""The real process, whose configuration, policies and certificates change while it serves."""

from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from textwrap import indent

import pytest
import yaml
from support.builders import Json, pod
from support.patience import until
from support.policies.policydocuments import policy
from support.service.commands import start
from support.service.processes import Service, replace
from support.service.reviews import RESERVED, body

from certs.material import new_authority


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


_ENDS_IN_X = "object.metadata.name.endsWith('x')"
_BROKEN = "object.metadata.name.endsWidth('x')"
_DENIED = "ValidatingAdmissionPolicy 'names' with binding 'names' denied request: The name ends in x."
_WHY = (
    "{file}:7:61: spec.validations[0].expression: undeclared reference to 'endsWidth' (in container '')\n"
    "object.metadata.name.endsWidth('x')\n"
    "                              ^\n"
    "hint: did you mean 'endsWith'?"
)


def _write(file: Path, expression: str, name: str = "names") -> None:
    replace(file, policy(name, expression, "The name ends in x."))


async def _refusal(service: Service, path: str = "/validate") -> str:
    """What a Pod called web is told; empty where it is admitted."""
    answer = await service.answer(body(pod(metadata={"name": "web"})), path)
    return str(answer.get("status", {}).get("message", ""))


async def test_a_directory_of_policies(tmp_path: Path) -> None:
    """Policies apply from the start and follow their files; a mistake in one is told and changes nothing else."""
    policies = tmp_path / "policies"
    policies.mkdir()
    _write(policies / "names.yaml", _ENDS_IN_X)
    async with Service(tmp_path, "--policies", str(policies)) as service:
        loaded = await service.event("policies loaded")
        assert [loaded[key] for key in ("policies", "added", "removed", "changed")] == [1, ["names"], [], []]
        assert (await _refusal(service)).splitlines()[0] == _DENIED

        _write(policies / "names.yaml", _BROKEN)
        refused = await service.event("policies refused")
        why = _WHY.format(file=policies / "names.yaml")
        assert (refused["source"], refused["reason"]) == (str(policies), why)
        ready = await service.ask("/readyz")
        note = f"ok\n- policies: {policies}: refused, what was loaded before stays in force:\n{indent(why, '  ')}\n"
        assert (ready.status, ready.body.decode()) == (200, note)
        assert b"\ncks_admission_policies_refused 1.0\n" in (await service.ask("/metrics")).body
        assert (await _refusal(service)).splitlines()[0] == _DENIED

        _write(policies / "names.yaml", "true")
        _write(policies / "more.yaml", _ENDS_IN_X, name="more")
        await until(lambda: any(event.get("policies") == 2 for event in service.events))
        _, *later = (event for event in service.events if event["event"] == "policies loaded")  # one or one for each
        assert [[*chain(*(event[what] for event in later))] for what in ("added", "changed")] == [["more"], ["names"]]
        assert (await _refusal(service)).startswith("ValidatingAdmissionPolicy 'more' with binding 'more' denied")
        assert (await service.ask("/readyz")).body == b"ok\n"

        (policies / "more.yaml").unlink()
        await until(lambda: any(event.get("removed") == ["more"] for event in service.events))
        assert await _refusal(service) == ""


async def test_paths_of_policies(tmp_path: Path) -> None:
    """The API server asks under a path of their own, which is there as long as a policy may come, whatever is off."""
    _write(tmp_path / "names.yaml", _ENDS_IN_X)
    off: Json = {rule: {"action": "off"} for rule in ("labels", "topology", "tolerations", "sunk", "selectors")}
    off["guard"] = {"namespaces": "off", "taints": "off"}
    async with Service(tmp_path, "--policies", str(tmp_path / "names.yaml"), **off) as service:
        assert (await service.event("serving"))["rules"] == ["names"]
        for path in ("/validate", "/validate/policies"):
            assert (await _refusal(service, path)).splitlines()[0] == _DENIED
        for path in ("/validate/policies-ignore", "/mutate/policies", "/validate/labels"):
            assert await _refusal(service, path) == ""


@pytest.mark.parametrize(
    ("expression", "name", "why"),
    [
        pytest.param(_BROKEN, "names", _WHY, id="broken"),
        pytest.param(
            "true",
            "labels",
            "{file}:3: metadata.name: 'labels' is the name of a built-in rule\nhint: give the policy another name",
            id="name-of-a-built-in-rule",
        ),
    ],
)
def test_a_start_with_policies_that_are_refused(tmp_path: Path, expression: str, name: str, why: str) -> None:
    """Nothing is served with policies that are wrong from the start; the whole reason is on stderr."""
    file = tmp_path / "names.yaml"
    _write(file, expression, name)

    done = start("serve", "--port", "0", "--health-port", "0", "--certs-dir", str(tmp_path), "--policies", str(file))

    assert (done.returncode, done.stderr.decode().splitlines()[-len(why.splitlines()) :]) == (
        2,
        f"Error: {indent(why.format(file=file), '  ').lstrip()}".splitlines(),
    )


async def test_topologies_that_are_spoilt_meanwhile(tmp_path: Path) -> None:
    """Files with topologies are read at start; what becomes of them then keeps no policy from being reloaded."""
    policies, topologies = tmp_path / "names.yaml", tmp_path / "halls.json"
    _write(policies, "true")
    topologies.write_text('{"name": "halls", "levels": ["example.org/hall"]}', encoding="utf-8")
    async with Service(tmp_path, "--policies", str(policies), topology={"files": [str(topologies)]}) as service:
        assert await _refusal(service) == ""

        replace(topologies, "{")
        _write(policies, _ENDS_IN_X)
        await until(lambda: any(event.get("changed") == ["names"] for event in service.events))

        assert (await _refusal(service)).splitlines()[0] == _DENIED
