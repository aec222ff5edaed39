"""The webhook configurations, as the API server stores them."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import yaml

from cluster import workloads
from cluster.polling import NotYet
from cluster.service import COMMAND, NAMESPACE

if TYPE_CHECKING:
    from cluster.controlplane import ControlPlane
    from cluster.service import Service

KINDS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")


def exported(service: Service) -> str:
    """Return what `export webhook-configuration` prints with the service's settings."""
    command = [str(COMMAND), "export", "webhook-configuration", "--config", str(service.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_export_is_what_is_registered(control_plane: ControlPlane, service: Service) -> None:
    """Applying the export changes nothing: it is what the service wrote, but for Namespaces found since."""
    printed = list(yaml.safe_load_all(exported(service)))

    for kind, document in zip(KINDS, printed, strict=True):
        wanted = {webhook["name"]: webhook for webhook in document["webhooks"]}

        def stored(kind: str = kind, wanted: dict[str, Any] = wanted) -> dict[str, Any]:
            found = {webhook["name"]: webhook for webhook in control_plane.get(kind, "cks-admission")["webhooks"]}
            if wanted.keys() != found.keys():  # policies of other proofs may be going just now
                raise NotYet(f"{sorted(found)}, not {sorted(wanted)}")
            return found

        found = control_plane.wait_for("the entries of the built-in rules alone", stored)
        for name, webhook in wanted.items():
            same = {key: found[name].get(key) for key in webhook if key != "matchConditions"}
            assert same == {key: value for key, value in webhook.items() if key != "matchConditions"}


def test_export_is_accepted(control_plane: ControlPlane, service: Service) -> None:
    """The API server takes the printed configurations without a warning; their CEL compiles."""
    answer = control_plane.apply(exported(service), "--server-side", "--dry-run=server", "--force-conflicts")

    assert (answer.returncode, answer.stderr) == (0, "")


def test_fields_belong_to_the_service(control_plane: ControlPlane, service: Service) -> None:
    """They were written by server-side apply under the service's own name."""
    assert service.events("registered")
    for kind in KINDS:
        answer = control_plane.kubectl("get", kind, "cks-admission", "--show-managed-fields", "-o", "json", check=True)
        fields = json.loads(answer.stdout)["metadata"]["managedFields"]
        assert [(entry["manager"], entry["operation"]) for entry in fields] == [("cks-admission", "Apply")]


def test_own_namespace_is_out_of_the_way(control_plane: ControlPlane, service: Service) -> None:
    """In the service's own Namespace nothing is asked, so that it can be repaired whatever happens."""
    assert service.events("registered")
    answer = control_plane.apply(workloads.config_map(NAMESPACE, "own", {"foo.coreweave.cloud/bar": "true"}))

    assert (answer.returncode, answer.stderr) == (0, "")
