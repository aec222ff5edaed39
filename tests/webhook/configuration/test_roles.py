"""What the two kinds of processes take from one configuration."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.configuration.roles import of_manager, of_replica
from webhook.configuration.settings import Settings, SettingsError

APART: dict[str, Any] = {
    "cluster": {"inCluster": True},
    "manage": {"apart": True, "secret": "leaf"},
    "tls": {"secret": "ca", "certFile": "tls/tls.crt", "keyFile": "tls/tls.key", "clientCaFile": "clients.crt"},
    "registration": {"apply": True, "owner": "role"},
}


def _settings(**sections: dict[str, Any]) -> Settings:
    return Settings.model_validate({key: APART.get(key, {}) | sections.get(key, {}) for key in APART | sections})


def test_what_is_shared_is_manages_and_files_are_replicas() -> None:
    """Neither the CA nor the registration is a replica's, and none of the files of replicas is manage's."""
    settings = _settings()
    shared = {"tls": {**APART["tls"], "secret": ""}, "registration": {}}
    files = {"tls": {"secret": "ca"}}

    assert of_replica(settings) == Settings.model_validate({**APART, **shared})
    assert of_manager(settings) == Settings.model_validate({**APART, **files})


def test_without_manage_a_replica_does_everything() -> None:
    """The settings stay as they are."""
    settings = _settings(manage={"apart": False}, tls={"secret": ""})

    assert of_replica(settings) is settings


@pytest.mark.parametrize(
    ("role", "sections", "reason"),
    [
        (of_replica, {"tls": {"certFile": "", "keyFile": ""}}, "manage.apart: replicas read no Secret; mount the"),
        (of_replica, {"manage": {"apart": False}}, "tls.secret is where manage keeps the CA: set manage.apart to true"),
        (of_manager, {"manage": {"apart": False}}, "manage.apart is false, so that serve does this work itself"),
        (of_manager, {"cluster": {"inCluster": False}}, "manage needs a cluster: set cluster.kubeconfig"),
        (of_manager, {"manage": {"secret": ""}}, "tls.secret and manage.secret belong together"),
    ],
    ids=["no-files", "no-manage", "not-apart", "no-cluster", "no-leaf"],
)
def test_what_cannot_work_is_refused(role: Any, sections: dict[str, Any], reason: str) -> None:
    """The text says what is missing and what to set."""
    with pytest.raises(SettingsError, match=reason):
        role(_settings(**sections))
