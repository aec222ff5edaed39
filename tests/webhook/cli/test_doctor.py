"""`cks-admission doctor`: an installation looked at from the outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
import yaml
from click.testing import Result
from support.api.fakeapi import MUTATING, NODES, VALIDATING, Json, status
from support.service.commands import last_line, run
from support.service.installation import CONFIG_MAPS, SECRETS, Installation, installed

pytestmark = pytest.mark.usefixtures("no_packs")


@pytest.fixture
async def api() -> AsyncIterator[Installation]:
    """An installation in good order."""
    async with installed() as running:
        yield running


async def _run(*arguments: str) -> Result:
    named = ("--config", "cks.yaml", "--kubeconfig", "kube.config")
    return await asyncio.to_thread(run, "doctor", *named, *arguments)


async def _faults(*arguments: str) -> list[tuple[str, str, str, str, str]]:
    """What is not in order."""
    result = await _run(*arguments, "-o", "json")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert result.exit_code == (1 if any(each["level"] == "problem" for each in found) else 0)
    return [tuple(each.values()) for each in found if each["level"] != "ok"]


async def test_all_is_well(api: Installation) -> None:
    """Everything that was looked at is told, group by group, and the exit code is 0."""
    result = await _run()

    served = next(line for line in result.stdout.splitlines() if "its certificate" in line)
    assert served.startswith("  ok   127.0.0.1:")
    assert ": its certificate is for 127.0.0.1, trusted by every caBundle, and valid until " in served
    assert result.stdout.replace(served, "  ok   CERTIFICATE") == (
        "API server\n"
        "  ok   version: v1.36.3 has webhook match conditions and ValidatingAdmissionPolicy v1\n"
        "registration\n"
        "  ok   MutatingWebhookConfiguration cks-admission: 2 entries, as in the settings\n"
        "  ok   ValidatingWebhookConfiguration cks-admission: 6 entries, as in the settings\n"
        "certificate\n"
        "  ok   CERTIFICATE\n"
        "probe\n"
        "  ok   ConfigMap with a reserved label, dry run in namespace default: "
        "the service refused it: the API server calls the service and gets its answer\n"
        "rights\n"
        "  ok   alice: it has the 61 rights that the service needs; "
        "to check the service's own account, use --as-service-account NAMESPACE/NAME\n"
        "scope\n"
        "  ok   the service's entries: 2 entries fail closed, none of them in cloud or for all of kube-system\n"
        "other webhooks\n"
        "  ok   MutatingWebhookConfigurations: no other webhook changes what the service changes\n"
        "label writers\n"
        "  ok   mutating policies and definitions: no policy and no conversion can write labels past the guard\n"
        "policies\n"
        "  ok   policies: 0 policies in addition to the built-in rules, none refused\n"
        "topology\n"
        "  ok   topology kubernetes: 1 Node with accelerators, none without the labels of region, zone\n"
        "replicas\n"
        "  ok   Lease cloud/cks-admission: cks-1 holds and renews it\n"
        "no problem, 0 warnings, 0 unknown\n"
    )
    assert (result.stderr, result.exit_code) == ("", 0)
    assert api.asked[-1]["kind"] in ("ConfigMap", "SelfSubjectAccessReview")


async def test_nothing_is_written(api: Installation) -> None:
    """Whatever is sent is a question: reads, reviews, and one dry run."""
    await _run()

    assert {seen.method for seen in api.seen} == {"GET"}
    assert {(each["kind"], *each.get("query", {}).items()) for each in api.asked} == {
        ("SelfSubjectAccessReview",),
        ("ConfigMap", ("dryRun", "All")),
    }


async def test_the_ca_of_all_replicas_is_judged_and_kept_secret() -> None:
    """The Secret is read by the right that the service has, and nothing of it is shown but the CA's dates."""
    files = {"certFile": "tls.crt", "keyFile": "tls.key"}
    async with installed(tls={"secret": "ca", **files}, manage={"apart": True, "secret": "leaf"}) as api:
        result = await _run()

    asked = sorted((seen.query for seen in api.seen if seen.path == SECRETS), key=str)  # they are read at the same time
    assert asked == [{"fieldSelector": f"metadata.name={name}", "limit": "500"} for name in ("ca", "leaf")]
    assert "  ok   Secret cloud/ca: its CA is in every caBundle and is valid until " in result.stdout
    assert ("PRIVATE" in result.stdout, result.stderr, result.exit_code) == (False, "", 0)


def _delete(api: Installation) -> None:
    api.delete(MUTATING, "cks-admission")


def _opt_out(api: Installation) -> None:
    found = _validating(api)
    found["webhooks"][0]["objectSelector"] = {"matchLabels": {"a": "b"}}
    found["metadata"]["managedFields"] = [{"manager": "kubectl-edit", "time": "2026-03-01T12:00:00Z"}]
    api.put(VALIDATING, found)


def _forget(api: Installation) -> None:
    found = _validating(api)
    for entry in found["webhooks"]:
        del entry["clientConfig"]["caBundle"]
    api.put(VALIDATING, found)


def _validating(api: Installation) -> Json:
    found = api.get(VALIDATING, "cks-admission")
    assert found is not None
    return found


def _refuse_policies(api: Installation) -> None:
    annotations = {"cks-admission.dev/policies-refused": "team/p.yaml:1:1: no"}
    api.put(CONFIG_MAPS, {"metadata": {"name": "team", "annotations": annotations}, "data": {"p.yaml": "a: ["}})


def _admit(api: Installation) -> None:
    api.answer = (201, "")


def _forbid(api: Installation) -> None:
    api.fail(NODES, 403, status(403, "nodes is forbidden"))


_APPLIED = (
    'the service repairs it after being ready for 10 s; if it does not, look for "not registered" or '
    '"undone" in its log'
)
_GONE = "it does not exist, so the API server never calls the service"
_WRITTEN = "last written by kubectl-edit at 2026-03-01T12:00:00Z"
_CASES: dict[Callable[[Installation], None], tuple[str, ...]] = {
    _delete: ("registration", "problem", "MutatingWebhookConfiguration cks-admission", _GONE, _APPLIED),
    _opt_out: (
        *("registration", "problem", "ValidatingWebhookConfiguration cks-admission"),
        f"it differs from the settings: labels.cks-admission.dev: objectSelector; {_WRITTEN}",
        _APPLIED,
    ),
    _forget: (
        *("certificate", "problem", "ValidatingWebhookConfiguration labels.cks-admission.dev"),
        "it has no caBundle, so the API server trusts only its own root CAs (and 5 more entries)",
        'the running service writes it; if it does not, look for "not registered" in its log',
    ),
    _refuse_policies: (
        *("policies", "problem", "ConfigMap cloud/team", "refused: team/p.yaml:1:1: no"),
        "correct it; until then the previous policies stay in force",
    ),
    _admit: (
        *("probe", "problem", "ConfigMap with a reserved label, dry run in namespace default"),
        "it was admitted: the API server did not call the service",
        "see the findings about the registration; after a change the API server needs a few seconds",
    ),
    _forbid: (
        *("topology", "unknown", "Nodes", "not checked: the current account may not list nodes"),
        "use an account that may list nodes",
    ),
}


@pytest.mark.parametrize(("change", "expected"), _CASES.items(), ids=lambda value: getattr(value, "__name__", ""))
async def test_one_thing_is_wrong(
    api: Installation, change: Callable[[Installation], None], expected: tuple[str, ...]
) -> None:
    """The finding names it, and says what to do."""
    change(api)

    assert expected in await _faults()


async def test_a_right_of_the_service_is_missing(api: Installation) -> None:
    """A service account that looks is taken for the service's: what it may not do is a problem."""
    account = "system:serviceaccount:cloud:cks"
    api.refused, api.user = {"leases"}, {"username": account, "groups": []}

    why = "in namespace cloud: the replicas agree by this Lease which of them writes"
    assert [each[1:4] for each in await _faults() if each[0] == "rights"] == [
        ("problem", account, f"it may not {verbs} {why}")
        for verbs in ("create leases.coordination.k8s.io", "get, update leases.coordination.k8s.io cks-admission")
    ]


async def test_rights_are_asked_for_another_account(api: Installation) -> None:
    """--as-service-account asks about that account, with the groups that it is in."""
    result = await _run("--as-service-account", "cloud/cks", "-o", "yaml")

    (rights,) = (each for each in yaml.safe_load(result.stdout) if each["check"] == "rights")
    account, found = "system:serviceaccount:cloud:cks", "it has the 61 rights that the service needs"
    assert rights == {"check": "rights", "level": "ok", "where": account, "found": found, "remedy": ""}
    spec = next(each["spec"] for each in api.asked if each["kind"] == "SubjectAccessReview")
    groups = ["system:serviceaccounts", "system:serviceaccounts:cloud", "system:authenticated"]
    assert (spec["user"], spec["groups"]) == (account, groups)


async def test_problems_are_shown_with_what_to_do(api: Installation) -> None:
    """A line for what was found, one for the remedy; the last one counts, and the exit code is 1."""
    _delete(api)

    result = await _run("--no-probe")

    where = "MutatingWebhookConfiguration cks-admission"
    assert f"registration\n  FAIL {where}: {_GONE}\n       -> {_APPLIED}\n" in result.stdout
    assert ("probe" in result.stdout, result.exit_code) == (False, 1)
    assert last_line(result.stdout) == "1 problem, 0 warnings, 0 unknown"


async def test_warnings_are_no_failure(api: Installation) -> None:
    """Where nothing is worse than doubtful the exit code is 0."""
    api.refused = {"leases"}

    result = await _run()

    assert "  warn alice: it may not create leases.coordination.k8s.io" in result.stdout
    assert (last_line(result.stdout), result.exit_code) == ("no problem, 2 warnings, 0 unknown", 0)


async def test_a_cluster_that_cannot_be_asked(api: Installation) -> None:
    """An API server that answers nobody is exit code 3, in its words."""
    api.fail("/version", 401, status(401, "Unauthorized"))

    result = await _run()

    error = f"Error: the API server refused GET /version at {api.url} (401: Unauthorized)\n"
    assert (result.stdout, result.stderr, result.exit_code) == ("", error, 3)
