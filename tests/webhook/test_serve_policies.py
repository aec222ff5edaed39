"""Policies that the real process serves, and that change while it does."""

from itertools import chain
from pathlib import Path
from textwrap import indent

import pytest
from support.builders import Json, pod
from support.patience import until
from support.policies.policydocuments import policy
from support.service.commands import start
from support.service.processes import Service, replace
from support.service.reviews import body

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
