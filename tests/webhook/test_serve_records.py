"""What the real process records: decisions, which can be replayed, those of shadow policies, and traces."""

import asyncio
import json
import signal
import socket
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from support.builders import Json, pod
from support.patience import PATIENCE, until
from support.policies.changed import Case, cases, written
from support.policies.policydocuments import policy
from support.service.commands import run
from support.service.processes import Service, free_port, replace
from support.service.receiver import receiving
from support.service.reviews import UID, body, refused_body
from support.service.wire import JSON

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
    answer = run("replay", str(log), "--policies", str(sets.new), "-o", "json")
    *changes, last = map(json.loads, answer.stdout.splitlines())
    summary, replayed = last["summary"], dict[str, dict[str, str]]()
    for change in changes:
        replayed.setdefault(change["uid"], {})[change["policy"]] = change["outcome"]
    assert (answer.exit_code, replayed) == (1, expected)
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


_TRACE, _PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_SENT = JSON + f"traceparent: 00-{_TRACE}-{_PARENT}-01\r\n".encode()
_COUNTED = 'cks_admission_traces_total{{outcome="{}"}} 1.0\n'
_UNSAMPLED = JSON + f"traceparent: 00-{_TRACE[::-1]}-{_PARENT}-00\r\n".encode()


async def test_a_trace_goes_on_with_the_span_of_the_caller(tmp_path: Path) -> None:
    """The parts of a review are sent under the caller's span; a caller that does not trace has no trace."""
    async with receiving() as receiver:
        tracing = {"endpoint": receiver.address, "share": 0, "ruleSeconds": 0}
        async with Service(tmp_path, tracing=tracing) as service:
            async with service.connection() as wire:
                for headers in (_UNSAMPLED, JSON, _SENT):
                    assert (await wire.call(refused_body(), "/validate/labels", headers)).status == 200
            await until(lambda: bool(receiver.spans))

            review, *parts = receiver.of(_TRACE)
            assert len(receiver.spans) == len(parts) + 1
            assert (review.name, review.parent, review.kind) == ("review", _PARENT, "SPAN_KIND_SERVER")
            assert review.attributes == {
                "http.request.method": "POST",
                "http.response.status_code": 200,
                "http.route": "/validate/labels",
                "cks_admission.uid": UID,
                "cks_admission.operation": "CREATE",
                "cks_admission.resource": "pods",
                "cks_admission.namespace": "default",
                "cks_admission.name": "trainer",
                "cks_admission.dry_run": False,
                "cks_admission.allowed": False,
                "cks_admission.verdicts": ("labels: deny",),
            }
            assert review.sender["service.name"] == "cks-admission"
            assert review.sender["service.instance.id"] == socket.gethostname()
            assert [part.name for part in parts] == ["receive", "decode", "match", "rule", "encode"]
            assert {part.parent for part in parts} == {review.own}
            assert all(review.start <= part.start <= part.end <= review.end for part in parts)
            assert parts[3].attributes == {"cks_admission.rule": "labels"}


async def test_reviews_in_a_child_process_are_traced(tmp_path: Path) -> None:
    """What the child process does is in the trace, and nothing of its spans is sent by the child itself."""
    async with (
        receiving() as receiver,
        Service(tmp_path, tracing={"endpoint": receiver.address, "share": 1}) as service,
    ):
        await service.answer(body(pod(annotations={"large": "x" * 300 * 1024})), "/validate/labels")
        await service.shows(_COUNTED.format("sent"))

        (trace,) = {span.trace for span in receiver.spans}
        review, *parts = receiver.of(trace)
        assert (review.name, review.parent) == ("review", "")
        names = [part.name for part in parts if part.name != "rule"]
        assert sorted(names) == ["child", "decode", "encode", "receive"]


async def test_a_receiver_that_is_down_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Reviews are answered, one line says that traces are lost, and they are counted."""
    with free_port() as port:
        async with Service(tmp_path, tracing={"endpoint": f"http://127.0.0.1:{port}", "share": 1}) as service:
            await service.answer(refused_body())
            lost = await service.event("traces lost")
            await service.shows(_COUNTED.format("lost"))

            assert lost["reason"].startswith(f"http://127.0.0.1:{port}: Failed to export spans")
            assert "tracing: http://" in (await service.ask("/readyz?verbose")).text
            assert [event["event"] for event in service.events if event["level"] != "info"] == ["traces lost"]
    assert service.noise == []
