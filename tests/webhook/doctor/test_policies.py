"""Policies that are not in force, and what should be registered for those that are."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from support.builders import Json

from policies.engine.ruleset import RuleSet
from webhook.configuration.settings import Settings
from webhook.doctor.cluster import check_policies
from webhook.doctor.desired import ClusterPolicyState, Desired, make
from webhook.doctor.observation import PolicySource, Unread

from .findings import FORBIDDEN, settings, told

pytestmark = pytest.mark.usefixtures("no_packs")

_TODAY = date(2026, 3, 1)
_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: size}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations: [{expression: "object.spec.replicas <= 5"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: size}
spec: {policyName: size, validationActions: [Deny]}
"""
_BROKEN = _POLICY.replace("<= 5", "<=")
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def files() -> str:
    """A directory with a policy."""
    Path("policies").mkdir()
    Path("policies/width.yaml").write_text(_POLICY.replace("size", "width"), encoding="utf-8")
    return "policies"


def _map(data: str, refused: str = "") -> PolicySource:
    return PolicySource({"policies.yaml": data}, refused)


def _settings(**policies: Any) -> Settings:
    return settings(cluster={"namespace": "cloud"}, policies=policies)


async def _make(chosen: Settings, maps: Any = (), natives: Any = (), namespaces: Any = ()) -> Desired:
    read: Any = (each if isinstance(each, Unread) else dict(each) for each in (namespaces, maps, natives))
    found = ClusterPolicyState(*read)
    return await make(chosen, found, _TODAY)


async def _told(chosen: Settings, *maps: PolicySource) -> list[tuple[str, str, str, str]]:
    by_name = dict(zip(["team"], maps, strict=False))
    return told(check_policies(await _make(chosen, by_name), by_name, chosen))


async def test_a_config_map_that_is_refused() -> None:
    """It is told in the service's own words; where these are missing, that is told as well."""
    mistake = await _told(_settings(), _map(_BROKEN))
    marked = await _told(_settings(), _map(_BROKEN, "team/policies.yaml:7:31: says the service"))

    assert [found[:2] for found in mistake] == [("problem", "ConfigMap cloud/team")]
    assert mistake[0][2].startswith("refused: team/policies.yaml:7:")
    assert mistake[0][3] == (
        "correct it. The service has not annotated the ConfigMap: check that it runs and may patch ConfigMaps"
    )
    assert marked == [
        (
            "problem",
            "ConfigMap cloud/team",
            "refused: team/policies.yaml:7:31: says the service",
            "correct it; until then the previous policies stay in force",
        )
    ]


async def test_files_that_are_refused() -> None:
    """So are files, with what the service does meanwhile."""
    ((level, where, found, remedy),) = await _told(_settings(directories=["nowhere"]))

    assert (level, where, found) == (
        "problem",
        "nowhere",
        "refused: nowhere: cannot be read: No such file or directory",
    )
    assert remedy == (
        "correct it; cks-admission lint shows more. Until it restarts, the service keeps the previous policies"
    )


async def test_what_is_doubtful() -> None:
    """What is no error is a warning in the service's words."""
    exception = {"rules": ["nosuch"], "reason": "x", "until": "2026-12-31"}
    chosen = settings(exceptions=[exception])

    found = told(check_policies(await _make(chosen), {}, chosen))

    assert found[0][0] == "warning"
    assert found[0][2].startswith("exceptions: there is no rule 'nosuch'; known are labels, ")


async def test_policies_in_the_shadow(files: str) -> None:
    """Those that no review reaches are warnings with a remedy; a directory that is refused is one, too."""
    reached = await _told(_settings(directories=[files], shadow=[files]))
    blind = await _told(_settings(shadow=[files]))
    refused = await _told(_settings(shadow=["nowhere"]))

    assert [found[0] for found in reached] == ["ok"]
    assert blind[0] == (
        "warning",
        "policy width in the shadow",
        (
            "it is not asked about CREATE deployments.apps: "
            "no policy in force with its failurePolicy is for that, so the API server does not send all of it"
        ),
        "put the policy into force with validationActions: [Audit], or run audit on what exists",
    )
    assert refused[0][:3] == (
        "warning",
        "policies",
        "those in the shadow are refused: nowhere: nowhere: cannot be read: No such file or directory",
    )


async def test_settings_that_cannot_be_used() -> None:
    """Files that are not here keep all that depends on them from being known."""
    chosen = settings(topology={"files": ["nowhere.yaml"]})
    wanted = await _make(chosen)

    reason = "the settings cannot be used here: nowhere.yaml: cannot be read: No such file or directory"
    assert [wanted.ruleset, wanted.configurations, wanted.catalog] == [Unread(reason)] * 3
    assert told(check_policies(wanted, {}, chosen)) == [
        ("problem", "the configuration", reason, "correct the configuration, or run doctor where its files are")
    ]


async def test_what_may_not_be_looked_at() -> None:
    """ConfigMaps that cannot be read are not known."""
    found = told(check_policies(await _make(_settings(), FORBIDDEN), FORBIDDEN, _settings()))
    assert found[0][:2] == ("unknown", "ConfigMaps with policies in cloud")


def _entries(wanted: Desired) -> list[str]:
    assert not isinstance(wanted.configurations, Unread)
    assert tuple(wanted.configurations) == _KINDS
    return [entry["name"] for each in wanted.configurations.values() for entry in each["webhooks"]]


async def test_what_is_wanted_has_the_entries_of_policies() -> None:
    """Policies in ConfigMaps, and the cluster's own that ask for rules, have entries as the service makes them."""
    plain = _entries(await _make(_settings()))
    with_map = _entries(await _make(_settings(), {"team": _map(_POLICY)}))

    assert set(with_map) > set(plain)


async def test_what_is_wanted_knows_control_plane_namespaces() -> None:
    """Match conditions name them, as the service finds them in the cluster."""
    namespaces: Json = {"org": {"ns.coreweave.cloud/org": "control-plane"}, "team": {}}
    wanted = await _make(_settings(), namespaces=namespaces)

    assert "system:serviceaccount:org:" in str(wanted.configurations)
    assert "system:serviceaccount:team:" not in str(wanted.configurations)


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        pytest.param(
            {"maps": {"team": _map(_BROKEN)}},
            "it is unknown what was in force before ConfigMap cloud/team was refused",
            id="refused",
        ),
        pytest.param({"maps": FORBIDDEN}, "ConfigMaps with policies could not be read", id="maps"),
        pytest.param({"natives": FORBIDDEN}, "native policies could not be read", id="natives"),
        pytest.param({"namespaces": FORBIDDEN}, "Namespaces could not be read", id="Namespaces"),
    ],
)
async def test_what_is_wanted_is_not_always_known(sources: Any, reason: str) -> None:
    """Where a source is missing, the rules are known as far as they go, and no configuration is claimed."""
    wanted = await _make(_settings(), **sources)

    assert isinstance(wanted.configurations, Unread)
    assert wanted.configurations.reason.endswith(reason)
    assert isinstance(wanted.ruleset, RuleSet)
