"""The decision log and the shadow policies of the real process, and the replay of what it recorded."""

import asyncio
import json
import signal
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from support.builders import Json
from support.patience import PATIENCE
from support.policies.changed import Case, Sets, cases, written
from support.policies.policydocuments import policy
from support.service.commands import run
from support.service.processes import Service, replace

_EVERYTHING = [{"verdicts": ["admit", "patch", "deny", "warn", "audit", "excepted", "error"]}]


async def _counted(service: Service, name: str) -> dict[tuple[str, ...], int]:
    """The values of a metric by its labels' values, in the order of the labels' names."""
    text = (await service.ask("/metrics")).body.decode()
    return {
        tuple(sample.labels[label] for label in sorted(sample.labels)): int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.value
    }


async def _judged(service: Service) -> int:
    return sum((await _counted(service, "cks_admission_shadow_reviews_total")).values())


async def _ask(service: Service, asked: list[Case]) -> None:
    """Send the reviews over one connection, and wait until the shadow policies have had their say."""
    before = await _judged(service)
    async with service.connection() as wire:
        for case in asked:
            assert (await wire.call(case.review, path="/validate/policies")).status == 200
    async with asyncio.timeout(PATIENCE):
        while await _judged(service) < before + len(asked):
            pass


def _records(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _replayed(log: Path, sets: Sets) -> tuple[int, dict[str, dict[str, str]], Json]:
    """The exit code, what becomes of the verdicts that change by uid and policy, and the summary."""
    answer = run("replay", str(log), "--policies", str(sets.new), "-o", "json")
    *changes, last = map(json.loads, answer.stdout.splitlines())
    outcomes: dict[str, dict[str, str]] = {}
    for change in changes:
        outcomes.setdefault(change["uid"], {})[change["policy"]] = change["outcome"]
    return answer.exit_code, outcomes, last["summary"]


async def test_a_thousand_requests(tmp_path: Path) -> None:
    """Replay names exactly the verdicts that change; the shadow policies count and record the same."""
    sets, log, asked = written(tmp_path), tmp_path / "decisions.jsonl", cases(1000)
    options = ("--policies", str(sets.old), "--shadow", str(sets.new), "--decision-log", str(log))
    recorded = {"content": "objects", "samples": _EVERYTHING}
    async with Service(tmp_path, *options, listen={"connectionSeconds": 0}, decisions=recorded) as service:
        await _ask(service, asked)
        reviews = await _counted(service, "cks_admission_shadow_reviews_total")
        shadow = await _counted(service, "cks_admission_shadow_decisions_total")
        service.signal(signal.SIGTERM)
        assert await service.ended() == 0

    expected = {case.uid: case.changes for case in asked if case.changes}
    code, replayed, summary = _replayed(log, sets)
    assert (code, replayed) == (1, expected)
    by_policy = {
        (outcome, name): number
        for name in ("also", "ends", "tier")
        for outcome, number in summary["policies"][name].items()
    }
    assert (reviews, shadow) == ({("judged",): 1000}, by_policy)
    counts = [summary[key] for key in ("replayed", "masked", "shadow", "unreadable")]
    assert counts == [1000, 1000, len(expected), 0]
    shadowed = [record for record in _records(log) if record["event"] == "shadow decision"]
    assert {
        record["request"]["uid"]: {change["policy"]: change["outcome"] for change in record["shadow"]}
        for record in shadowed
    } == expected
    assert "s3cret" not in log.read_text(encoding="utf-8")


async def test_by_default_refusals_are_recorded_without_content(tmp_path: Path) -> None:
    """With a log and nothing else set, each refusal is a line that names no value of an object."""
    sets, log = written(tmp_path), tmp_path / "decisions.jsonl"
    refused, warned = Case(1, "web", has_tier=True), Case(2, "webx", has_tier=False)
    async with Service(tmp_path, "--policies", str(sets.old), "--decision-log", str(log)) as service:
        for case in (refused, warned):
            await service.answer(case.review, "/validate/policies")
        service.signal(signal.SIGTERM)
        assert await service.ended() == 0

    (record,) = _records(log)
    assert {key: record[key] for key in record.keys() - {"timestamp", "seconds", "version"}} == {
        "event": "decision",
        "kubernetes": "1.37",
        "path": "/validate/policies",
        "allowed": False,
        "content": "none",
        "request": {
            "uid": "case-1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "",
            "name": "web",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {"username": "alice", "groups": ["dev", "system:authenticated"]},
            "dryRun": False,
        },
        "decisions": [
            {"rule": "ends", "verdict": "deny", "refuses": True, "paths": ["metadata.name"]},
            {"rule": "tier", "verdict": "admit"},
        ],
        "patch": {"operations": 0, "bytes": 0},
    }
    nothing = run("replay", str(log), "--policies", str(sets.new))
    assert (nothing.exit_code, nothing.stderr.splitlines()[0][:40]) == (2, "1 records without content were not repla")


async def test_a_broken_shadow(tmp_path: Path) -> None:
    """Shadow policies follow their files; broken and blind ones are told, and disturb nothing."""
    sets = written(tmp_path)
    file = sets.new / "policies.yaml"
    good = file.read_text(encoding="utf-8")
    replace(file, "kind: Broken")
    options = ("--policies", str(sets.old), "--shadow", str(sets.new))
    async with Service(tmp_path, *options) as service:
        refused = await service.event("policies refused")
        assert (refused["shadow"], refused["source"]) == (True, str(sets.new))
        ready = (await service.ask("/readyz")).body.decode()
        assert ready.startswith(f"ok\n- shadow: {sets.new}: refused, what was loaded before stays in force:\n")
        assert (await _counted(service, "cks_admission_shadow_policies_refused"))[()] == 1

        replace(file, good)
        await service.event("policies loaded", 3)  # those in force, none in the shadow, and now all
        await _ask(service, [Case(1, "web", has_tier=True)])
        all_same = {("same", "also"): 1, ("same", "ends"): 1, ("same", "tier"): 1}
        assert await _counted(service, "cks_admission_shadow_decisions_total") == all_same

        replace(file, policy("tier", "true", "Always."))
        await service.event("policies loaded", 4)
        await _ask(service, [Case(2, "web", has_tier=False)])
        changed = {("admit", "tier"): 1, ("same", "tier"): 1}
        assert await _counted(service, "cks_admission_shadow_decisions_total") == changed

        replace(file, policy("tier", "true", "Always.").replace("[pods]", "[services]"))
        unasked = await service.event("shadow policy is not asked")
        assert (unasked["policy"], unasked["about"]) == ("tier", "CREATE services")
        ready = (await service.ask("/readyz")).body.decode()
        assert ready.startswith("ok\n- shadow: tier is not asked about CREATE services: ")
        assert (await _counted(service, "cks_admission_shadow_policies_not_asked"))[()] == 1


async def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    """Answers come as ever, the records are counted as lost, and the log and the readiness say why."""
    sets, log = written(tmp_path), tmp_path / "directory"
    log.mkdir()
    async with Service(tmp_path, "--policies", str(sets.old), "--decision-log", str(log)) as service:
        await service.answer(Case(1, "web", has_tier=True).review)
        lost = await service.event("decision log lost")
        assert lost["reason"] == "records cannot be written: Is a directory"
        assert await _counted(service, "cks_admission_decision_records_total") == {("lost",): 1}
        ready = (await service.ask("/readyz")).body.decode()
        assert ready == "ok\n- decision log: records cannot be written: Is a directory\n"
