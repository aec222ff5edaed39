"""Policies that are not in force, and what should be registered for those that are."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from support.builders import Json
from support.policies.policydocuments import policy

from policies.engine.rule import RuleSet
from webhook.configuration.settings import Settings
from webhook.doctor.checks import check_policies
from webhook.doctor.desired import Desired, make
from webhook.doctor.observation import PolicySource, Unread

pytestmark = pytest.mark.usefixtures("no_packs")

_TODAY = date(2026, 3, 1)
_DEPLOYMENTS = "{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}"
_POLICY = policy("size", "object.spec.replicas <= 5", rule=_DEPLOYMENTS)
_BROKEN = _POLICY.replace("<= 5", "<=")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a policy, and where it is, so that file names in messages are short."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/width.yaml").write_text(_POLICY.replace("size", "width"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)


async def _make(chosen: Settings, maps: Any = (), natives: Any = (), namespaces: Any = ()) -> Desired:
    places, texts, own = (each if isinstance(each, Unread) else dict(each) for each in (namespaces, maps, natives))
    return await make(chosen, places, texts, own, _TODAY)


def _settings(**sections: Any) -> Settings:
    return Settings.model_validate({"cluster": {"namespace": "cloud"}, **sections})


_FORBIDDEN = Unread("the API server refused it", "list things")
_MISTAKE = PolicySource({"policies.yaml": _BROKEN}, "")
_MARKED = PolicySource({"policies.yaml": _BROKEN}, "team/policies.yaml:7:31: says the service")
_UNUSABLE = "the settings cannot be used here: nowhere.yaml: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("chosen", "maps", "told"),
    [
        pytest.param(
            _settings(),
            {"team": _MISTAKE},
            "problem ConfigMap cloud/team: refused: team/policies.yaml:7:*: * -> correct it. The service has not "
            "annotated the ConfigMap: check that it runs and may patch ConfigMaps",
        ),
        pytest.param(
            _settings(),
            {"team": _MARKED},
            "problem ConfigMap cloud/team: refused: team/policies.yaml:7:31: says the service -> correct it; until "
            "then the previous policies stay in force",
        ),
        pytest.param(
            _settings(),
            _FORBIDDEN,
            "unknown ConfigMaps with policies in cloud: not checked: the current account may not list things*",
        ),
        pytest.param(
            _settings(policies={"directories": ["nowhere"]}),
            {},
            "problem nowhere: refused: nowhere: cannot be read: No such file or directory -> correct it; "
            "cks-admission lint shows more. Until it restarts, the service keeps the previous policies",
        ),
        pytest.param(
            _settings(exceptions=[{"rules": ["nosuch"], "reason": "x", "until": "2026-12-31"}]),
            {},
            "warning policies: exceptions: there is no rule 'nosuch'; known are labels, *",
        ),
        pytest.param(
            _settings(topology={"files": ["nowhere.yaml"]}),
            {},
            f"problem the configuration: {_UNUSABLE} -> correct the configuration, or run doctor where its files are",
        ),
        (_settings(policies={"directories": ["policies"], "shadow": ["policies"]}), {}, "ok policies: *"),
        pytest.param(
            _settings(policies={"shadow": ["policies"]}),
            {},
            "warning policy width in the shadow: it is not asked about CREATE deployments.apps: no policy in force "
            "with its failurePolicy is for that, so the API server does not send all of it -> put the policy into "
            "force with validationActions: [[]Audit[]], or run audit on what exists",
        ),
        pytest.param(
            _settings(policies={"shadow": ["nowhere"]}),
            {},
            "warning policies: those in the shadow are refused: nowhere: nowhere: cannot be read: No such file or *",
        ),
    ],
)
async def test_what_is_told(chosen: Settings, maps: Any, told: str) -> None:
    """What is not in force, and why, comes first, in the service's own words; where these are missing, that is told."""
    first, *_ = check_policies(await _make(chosen, maps), maps, chosen)

    text = f"{first.level} {first.where}: {first.found}{f' -> {first.remedy}' if first.remedy else ''}"
    assert fnmatchcase(text, told), text


async def test_settings_that_cannot_be_used_leave_nothing_known() -> None:
    """Files that are not here keep all that depends on them from being known."""
    wanted = await _make(_settings(topology={"files": ["nowhere.yaml"]}))

    assert [wanted.ruleset, wanted.configurations, wanted.catalog] == [Unread(_UNUSABLE)] * 3


async def test_what_is_wanted_is_as_the_service_makes_it() -> None:
    """Policies in ConfigMaps have entries, and match conditions name the control-plane Namespaces of the cluster."""
    maps = {"team": PolicySource({"policies.yaml": _POLICY}, "")}
    namespaces: Json = {"org": {"ns.coreweave.cloud/org": "control-plane"}, "team": {}}
    texts = ("policies.cks-admission.dev", "system:serviceaccount:org:", "system:serviceaccount:team:")

    for sources, expected in (({}, [False] * 3), ({"maps": maps, "namespaces": namespaces}, [True, True, False])):
        wanted = str((await _make(_settings(), **sources)).configurations)
        assert [text in wanted for text in texts] == expected


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        pytest.param(
            {"maps": {"team": _MISTAKE}},
            "it is unknown what was in force before ConfigMap cloud/team was refused",
            id="refused",
        ),
        pytest.param({"maps": _FORBIDDEN}, "ConfigMaps with policies could not be read", id="maps"),
        pytest.param({"natives": _FORBIDDEN}, "native policies could not be read", id="natives"),
        pytest.param({"namespaces": _FORBIDDEN}, "Namespaces could not be read", id="Namespaces"),
    ],
)
async def test_what_is_wanted_is_not_always_known(sources: Any, reason: str) -> None:
    """Where a source is missing, the rules are known as far as they go, and no configuration is claimed."""
    wanted = await _make(_settings(), **sources)

    assert isinstance(wanted.configurations, Unread)
    assert wanted.configurations.reason.endswith(reason)
    assert isinstance(wanted.ruleset, RuleSet)
