"""The metrics: what is counted under which name, and that the reference lists each of them."""

import platform
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from support.builders import TODAY, daemon_set, pod, request
from support.service.reviews import RESERVED, Fixed, body, refused_body, rule, served, violation
from support.service.servers import Serve, default_rules

from policies.engine import engine
from policies.engine.engine import Answer, Decision, RuleFailure
from policies.engine.facts import StaticFacts
from policies.engine.rule import PolicyException, RuleSet
from webhook.logs import Sink
from webhook.metrics import Metrics, RuleTimes

_REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


class _Metric(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]


def _in_the_code() -> Iterator[_Metric]:
    for collector in Metrics().registry._collector_to_names:
        name, kind, labels = (getattr(collector, field) for field in ("_name", "_type", "_labelnames"))
        yield _Metric(f"{name}_total" if kind == "counter" else name, kind, labels)


def _in_the_reference() -> Iterator[_Metric]:
    """The rows of the table Metric | Type | Labels | Meaning; names of metrics and labels stand in backticks."""
    for line in _REFERENCE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 4 and (name := re.fullmatch(r"`(cks_admission_\w+)`", cells[0])):
            assert cells[3], f"{name[1]} has no meaning"
            yield _Metric(name[1], cells[1].strip("`").lower(), tuple(re.findall(r"`(\w+)`", cells[2])))


def test_the_reference_lists_every_metric() -> None:
    """docs/reference/metrics.md has a row for each metric, with its type and labels, and none for any other."""
    assert sorted(_in_the_reference()) == sorted(_in_the_code())


def _key(name: str, **labels: str) -> str:
    return f"{name}{{{','.join(f'{key}={labels[key]}' for key in sorted(labels))}}}"


def _request(phase: str, operation: str, allowed: str, dry_run: str) -> str:
    labels = {"phase": phase, "operation": operation, "allowed": allowed, "dry_run": dry_run}
    return _key("cks_admission_requests_total", **labels)


def _decision(phase: str, rule: str, operation: str, verdict: str) -> str:
    labels = {"phase": phase, "rule": rule, "operation": operation, "verdict": verdict}
    return _key("cks_admission_decisions_total", **labels)


def _duration(kind: str, phase: str) -> str:
    return _key(f"cks_admission_request_duration_seconds_{kind}", phase=phase)


def _samples(metrics: Metrics) -> dict[str, float]:
    """Every sample above zero, but for buckets, times of creation and the build."""
    families = text_string_to_metric_families(metrics.expose().decode())
    return {
        _key(sample.name, **sample.labels): sample.value
        for family in families
        for sample in family.samples
        if sample.value and not sample.name.endswith(("_created", "_bucket", "_build_info"))
    }


def test_an_answer_is_counted() -> None:
    """Answers, decisions, patch operations, templates, seconds and exceptions in force count, whatever rules' names."""
    metrics = Metrics()
    patch = {"op": "add", "path": "/x", "value": 1}
    moving = PolicyException("moving", ("labels", "sunk"), "new house", TODAY)
    passed = Decision("labels", "excepted", (violation(),), exception=moving)
    refused = Answer((passed, Decision("sunk", "deny", (violation(),), exception=moving)))
    failed = Answer((Decision("labels", "error", failure=RuleFailure(ValueError("x"), "Fail")),))
    patched = Answer((Decision("topology", "patch", ways=("domain", "none")),), (patch, patch))

    metrics.observe("validate", request(pod()), refused, 0.5)
    metrics.observe("validate", request(pod(), old=pod(), dry_run=True), failed, 0.25)
    metrics.observe("mutate", request(pod()), patched, 1.0)
    metrics.observe("mutate", request(pod()), patched, 1.0)
    named_as_an_operation = Answer((Decision("DELETE", "admit"),))
    metrics.observe("mutate", request(None, old=pod()), named_as_an_operation, 0.125)

    assert _samples(metrics) == {
        _request("validate", "CREATE", "false", "false"): 1,
        _request("validate", "UPDATE", "false", "true"): 1,
        _request("mutate", "CREATE", "true", "false"): 2,
        _request("mutate", "DELETE", "true", "false"): 1,
        _decision("validate", "labels", "CREATE", "excepted"): 1,
        _decision("validate", "sunk", "CREATE", "deny"): 1,
        _decision("validate", "labels", "UPDATE", "error"): 1,
        _decision("mutate", "topology", "CREATE", "patch"): 2,
        _decision("mutate", "DELETE", "DELETE", "admit"): 1,
        _key("cks_admission_exceptions_used_total", exception="moving", rule="labels"): 1,
        _key("cks_admission_patch_operations_total"): 4,
        _key("cks_admission_placed_templates_total", way="domain"): 2,
        _key("cks_admission_placed_templates_total", way="none"): 2,
        _duration("count", "mutate"): 3,
        _duration("sum", "mutate"): 2.125,
        _duration("count", "validate"): 2,
        _duration("sum", "validate"): 0.75,
    }


def test_the_series_of_what_is_no_longer_in_force_end() -> None:
    """Decisions, exceptions, times and overtime of deleted policies have no series; those of rules stay."""
    metrics = Metrics()
    moving = PolicyException("moving", ("gone", "labels"), "new house", TODAY)
    for name in ("gone", "labels"):
        metrics.observe("validate", request(pod()), Answer((Decision(name, "excepted", exception=moving),)), 0.5)
        metrics.rules.times.add({name: 0.25}, {name: 0.5})
        metrics.rules.overtime(name)
    before = _samples(metrics)
    metrics.observe("validate", request(pod()), Answer((Decision("gone", "audit"),)), 0.5)
    metrics.rules.in_force({"labels", "new"})
    after = _samples(metrics)

    assert sum("=gone" in name for name in before) == 6
    assert {name: after[name] for name in after if "rule=" in name or "policy=" in name} == {
        _decision("validate", "labels", "CREATE", "excepted"): 1,
        _key("cks_admission_exceptions_used_total", exception="moving", rule="labels"): 1,
        _key("cks_admission_rule_evaluations_total", rule="labels"): 1,
        _key("cks_admission_rule_seconds_total", rule="labels"): 0.25,
        _key("cks_admission_policy_overtime_total", policy="labels"): 1,
    }


def test_each_rule_is_counted_in_both_phases() -> None:
    """Every rule that runs counts once, also if it fails."""
    times = RuleTimes()
    ruleset = RuleSet([rule(name="tidy"), rule(Fixed(ValueError("x"), ValueError("x")), name="broken")])
    for run in (engine.validate, engine.mutate):
        times.begin()
        run(request(pod()), ruleset, StaticFacts(TODAY, after_rule=times))

    taken = times.take()
    assert {name: count for name, count, _ in taken} == {"tidy": 2, "broken": 2}
    assert all(seconds > 0 for _, _, seconds in taken)
    assert times.take() == []


def test_the_series_are_bounded() -> None:
    """Beyond so many rules the rest share one series."""
    metrics = Metrics()
    metrics.rules.times.add({f"rule-{number}": 0.5 for number in range(207)}, {})
    exposed = metrics.expose().decode()

    assert exposed.count("cks_admission_rule_seconds_total{") == 201
    assert 'cks_admission_rule_evaluations_total{rule="others"} 7.0\n' in exposed


def test_the_build_is_told() -> None:
    """The versions of the distribution and of Python, and what the process does, are labels of a metric."""
    versions = f'python="{platform.python_version()}",role="manage",version="{version("cks-admission")}"'

    assert f"cks_admission_build_info{{{versions}}} 1.0" in Metrics("manage").expose().decode().splitlines()


async def test_the_metrics_are_served(serve: Serve) -> None:
    """/metrics tells in Prometheus' form what has been answered, rejected and is under way."""
    off: Any = {"topology": {"action": "off"}, "selectors": {"action": "off"}, "guard": {"namespaces": "off"}}
    running = await serve(served(*default_rules(**off).rules))

    await running.post(refused_body())
    await running.post(body(pod(), dryRun=True), "/mutate")
    await running.post(body(daemon_set(labels=RESERVED)), "/mutate/workloads")
    await running.post(b"[]")
    await running.post(b"[]", content_type="text/plain")
    reply = await running.get("/metrics")

    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain; version=")
    families = [f for f in text_string_to_metric_families(reply.text) if not f.name.endswith("_created")]
    assert sorted((f.name, f.type) for f in families) == sorted(
        (metric.name.removesuffix("_total"), metric.kind) for metric in _in_the_reference()
    )
    assert [family.name for family in families if not family.documentation] == []
    assert [family.name for family in families if not family.name.startswith("cks_admission_")] == []
    assert {name: value for name, value in _samples(running.metrics).items() if "_seconds" not in name} == {
        _request("validate", "CREATE", "false", "false"): 1,
        _request("mutate", "CREATE", "true", "true"): 1,
        _request("mutate", "CREATE", "true", "false"): 1,
        _decision("validate", "labels", "CREATE", "deny"): 1,
        _decision("validate", "tolerations", "CREATE", "admit"): 1,
        _decision("mutate", "tolerations", "CREATE", "patch"): 2,
        _key("cks_admission_rule_evaluations_total", rule="labels"): 1,
        _key("cks_admission_rule_evaluations_total", rule="tolerations"): 3,
        _key("cks_admission_patch_operations_total"): 2,
        _key("cks_admission_rejected_calls_total", status="400"): 1,
        _key("cks_admission_rejected_calls_total", status="415"): 1,
        _key("cks_admission_connections"): 1,
    }
    assert "\ncks_admission_requests_in_flight 0.0\n" in reply.text


def test_lost_log_lines_are_counted() -> None:
    """What the sink has lost since the last look is added to the counter; without a sink there is nothing to add."""
    metrics = Metrics()
    with Path("/dev/full").open("wb") as full:
        metrics.log = sink = Sink(full.fileno(), str)
        sink.write("one\ntwo\n")
        first = _samples(metrics)
        sink.write("three\n")
        second = _samples(metrics)

    assert (first, second) == ({"cks_admission_log_lines_lost_total{}": 2}, {"cks_admission_log_lines_lost_total{}": 3})
    assert _samples(Metrics()) == {}
