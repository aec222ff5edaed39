"""The rules of policies and of the configuration, each of which may change while the other stays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.builders import Json, pod, request
from support.patience import PATIENCE
from support.policies.policydocuments import policy
from support.service.reviews import RESERVED, TODAY

from policies.cel.generation.codegen import Generated
from policies.cel.program import Program
from policies.engine.engine import validate
from policies.engine.facts import StaticFacts
from policies.kubernetes.release import named
from webhook.configuration import rules
from webhook.configuration.configuration import LoadedConfiguration
from webhook.configuration.settings import Settings, SettingsError
from webhook.metrics import Metrics
from webhook.sources.policykeeper import InCluster, PolicyKeeper
from webhook.sources.policyset import Directories

pytestmark = pytest.mark.usefixtures("no_packs")

_POLICY, _BINDING = policy("names", "false", "Never.", "ACTION").removesuffix("---\n").split("---\n")
_EXCEPTION = """\
apiVersion: cks-admission.dev/v1
kind: PolicyException
metadata: {name: moving}
spec: {policies: [names], reason: "REASON", until: "2099-12-31", match: {users: [bob]}}
"""
_LIMITS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits, namespace: team}\ndata: {most: 'MOST'}\n"


def _loaded(**settings: Any) -> LoadedConfiguration:
    chosen = Settings.model_validate(settings)
    return LoadedConfiguration(chosen, rules.topologies(chosen))


class _Kept:
    """A keeper of what is in a directory."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        before = _loaded(policies={"directories": [str(directory)]}, **settings)
        source = Directories((str(directory),))
        self.keeper = PolicyKeeper(before.settings, [source], Metrics(), before.catalog)

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.directory / f"{name}.yaml").write_text(text, encoding="utf-8")

    async def look(self) -> list[Json]:
        """What is logged of a look at the directory."""
        with capture_logs() as events:
            await self.keeper.look()
        return [dict(event) for event in events]

    def verdicts(self) -> Json:
        """What is said of a Pod with a reserved label."""
        answer = validate(request(pod(labels=RESERVED)), self.keeper.ruleset, StaticFacts(TODAY))
        return {decision.rule: decision.verdict for decision in answer.decisions}


def _event(policies: int, **names: list[str]) -> Json:
    empty: Json = {"added": [], "removed": [], "changed": []}
    return {"event": "policies loaded", "log_level": "info", "policies": policies, **empty, **names}


async def test_what_changed_is_told_by_name(tmp_path: Path) -> None:
    """Policies, bindings, exceptions and the objects beside them are each named where they come, change and go."""
    kept = _Kept(tmp_path)
    texts = {"policy": _POLICY, "binding": _BINDING.replace("ACTION", "Deny"), "limits": _LIMITS, "why": _EXCEPTION}

    kept.write(**texts)
    events = [await kept.look()]
    kept.write(binding=_BINDING.replace("ACTION", "Warn"))
    events.append(await kept.look())
    kept.write(why=_EXCEPTION.replace("REASON", "OPS-1"), limits=_LIMITS.replace("MOST", "3"))
    events.append(await kept.look())
    kept.write(policy=f"# As before.\n{_POLICY.replace('Never.', 'No.')}")
    (tmp_path / "why.yaml").unlink()
    events.append(await kept.look())

    limits = ["ConfigMap team/limits"]
    assert events == [
        [_event(1, added=["names"], bindings_added=["names"], exceptions_added=["moving"], objects_added=limits)],
        [_event(1, bindings_changed=["names"])],
        [_event(1, exceptions_changed=["moving"], objects_changed=limits)],
        [_event(1, changed=["names"], exceptions_removed=["moving"])],
    ]


async def test_a_defect_of_generated_code_is_counted_and_told_once(tmp_path: Path) -> None:
    """Each evaluation counts; the log names policy, expression and place once for an expression."""
    kept = _Kept(tmp_path)
    kept.write(policy=_POLICY.replace("false", "has(object.spec)"), binding=_BINDING.replace("ACTION", "Deny"))
    await kept.look()
    for compiled in kept.keeper._compiler._cache.values():
        program = compiled.validations[0].program
        assert isinstance(program, Program)
        program.generated = Generated("def evaluate(names, limit, expired):\n return undefined, 1", {})

    with capture_logs() as events:
        verdicts = [kept.verdicts()["names"] for _ in range(3)]

    assert verdicts == ["admit"] * 3
    assert kept.keeper._metrics.expression_faults._value.get() == 3
    assert events == [
        {
            "event": "generated code failed",
            "log_level": "warning",
            "policy": "names",
            "expression": "has(object.spec)",
            "place": f"{tmp_path}/policy.yaml:7",
            "error": """NameError("name 'undefined' is not defined")""",
        }
    ]


async def test_another_configuration(tmp_path: Path) -> None:
    """The policies stay in force under other settings, and later changes of them go by the new ones."""
    kept = _Kept(tmp_path)
    kept.write(policy=_POLICY, binding=_BINDING.replace("ACTION", "Deny"))
    await kept.look()
    found = [kept.verdicts()]

    exception = {"rules": ["names"], "reason": "x", "until": "2099-12-31"}
    await kept.keeper.reconfigure(_loaded(labels={"action": "warn"}, exceptions=[exception]))
    found.append(kept.verdicts())
    kept.write(binding=_BINDING.replace("ACTION", "Audit"))
    await kept.look()
    found.append(kept.verdicts())
    await kept.keeper.reconfigure(_loaded())
    found.append(kept.verdicts())

    others = {"guard": "admit", "topology": "admit", "tolerations": "warn", "selectors": "admit"}
    assert [{name: verdict for name, verdict in each.items() if name not in others} for each in found] == [
        {"labels": "deny", "names": "deny"},
        {"labels": "warn", "names": "excepted"},
        {"labels": "warn", "names": "excepted"},
        {"labels": "deny", "names": "audit"},
    ]


async def test_a_configuration_that_cannot_be_used(tmp_path: Path) -> None:
    """It is refused, and the policies go on under the old one, as do their reloads."""
    kept = _Kept(tmp_path, labels={"action": "audit"})
    kept.write(policy=_POLICY, binding=_BINDING.replace("ACTION", "Deny"))
    await kept.look()
    before = kept.keeper.ruleset

    with pytest.raises(SettingsError, match=r'^topology\.default\.preferred: "rak" '):
        await kept.keeper.reconfigure(_loaded(topology={"default": {"topology": "coreweave", "preferred": "rak"}}))

    assert (kept.keeper.ruleset is before, kept.keeper.unused()) == (True, [])
    kept.write(binding=_BINDING.replace("ACTION", "Audit"))
    await kept.look()
    assert {name: kept.verdicts()[name] for name in ("labels", "names")} == {"labels": "audit", "names": "audit"}


async def test_a_name_that_no_policy_has(tmp_path: Path) -> None:
    """The policy may come yet, in a ConfigMap for one: the exception is doubtful and refuses nothing."""
    kept = _Kept(tmp_path)
    await kept.look()
    exception = {"rules": ["later"], "reason": "x", "until": "2099-12-31"}

    with capture_logs() as events:
        await kept.keeper.reconfigure(_loaded(exceptions=[exception]))

    known = "labels, guard, topology, topology-objects, tolerations, sunk, selectors"
    why = f"exceptions: there is no rule 'later'; known are {known}"
    assert events == [{"event": "policy is doubtful", "log_level": "warning", "reason": why}]
    assert [each.rules for each in kept.keeper.ruleset.exceptions] == [("later",)]


async def test_both_change_at_once(tmp_path: Path) -> None:
    """Whichever is looked at first, in the end the rules are those of both."""
    kept = _Kept(tmp_path)
    await kept.look()
    kept.write(policy=_POLICY, binding=_BINDING.replace("ACTION", "Deny"))

    await asyncio.gather(kept.keeper.look(), kept.keeper.reconfigure(_loaded(labels={"action": "warn"})))

    assert {name: kept.verdicts()[name] for name in ("labels", "names")} == {"labels": "warn", "names": "deny"}


class _ServedRelease:
    """The release of a cluster, which the test sets."""

    def __init__(self, name: str) -> None:
        self.current = named(name)
        self.changed = asyncio.Event()

    async def changes(self) -> AsyncIterator[None]:
        while True:
            await self.changed.wait()
            self.changed.clear()
            yield


async def _started(directory: Path, name: str) -> tuple[_ServedRelease, PolicyKeeper]:
    """It was started with 1.36 and a policy of a name."""
    settings = _loaded(policies={"directories": [str(directory)]})
    served = _ServedRelease("1.36")
    release: Any = served
    cluster = InCluster(release, None, None, list)
    sources = [Directories((str(directory),))]
    keeper = PolicyKeeper(settings.settings, sources, Metrics(), settings.catalog, cluster)
    (directory / "policy.yaml").write_text(policy(name, "false", "Never."), encoding="utf-8")
    await keeper.start()
    return served, keeper


async def test_an_upgrade_of_the_cluster(tmp_path: Path) -> None:
    """All policies are compiled anew by the rules of the new release; a source that it refuses stays as it was."""
    served, keeper = await _started(tmp_path, "names.static.k8s.io")
    before, swapped = (_releases(keeper), keeper.unused()), asyncio.Event()

    async def swap() -> None:
        swapped.set()

    running = asyncio.create_task(keeper.run(swap))
    served.current = named("1.37")
    served.changed.set()
    await asyncio.wait_for(swapped.wait(), PATIENCE)
    running.cancel()

    assert before == ({"names.static.k8s.io": "1.36"}, [])
    assert _releases(keeper) == {"names.static.k8s.io": "1.37"}
    (unused,) = keeper.unused()
    place = f'{tmp_path}/policy.yaml:3:18: metadata.name: Invalid value: "names.static.k8s.io"'
    assert unused.splitlines()[1].startswith(place)


async def test_an_upgrade_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect met in compiling for the new release leaves in force what was compiled for the old one."""
    served, keeper = await _started(tmp_path, "names")
    before = keeper.ruleset

    def fail(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(rules, "of_policies", fail)
    served.current = named("1.37")
    with capture_logs() as events:
        changed = await keeper.look()

    assert (changed, keeper.ruleset is before) == (False, True)
    assert [event["event"] for event in events] == ["could not read policies", "policies refused"]


def _releases(keeper: PolicyKeeper) -> dict[str, str]:
    """The release for which each policy in force is compiled."""
    return {compiled.policy.name: compiled.release.name for compiled in keeper._compiler._cache.values()}
