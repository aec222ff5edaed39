"""The service under test: the real command, with its own account and rights, registered with the API server."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from support.packmodes import OFF

from cluster import jsonlog, workloads
from cluster.controlplane import ControlPlane
from cluster.polling import PATIENCE, NotYet, answers, wait_for
from cluster.workspace import free_ports
from policies.objects.workload import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.manifests import Manifest

NAMESPACE = "cks-admission"
COMMAND = Path(sys.executable).with_name("cks-admission")
ORGANIZATION = "org-1234"
# One that lasts, and one that has ended, each for objects with a label that no other proof writes.
EXCEPTIONS = [
    {
        "rules": ["labels"],
        "reason": "OPS-1234: moved off by then",
        "until": until,
        "groups": ["dev*", "system:authenticated"],
        "objectSelector": {"matchLabels": {"example.org/legacy": label}},
    }
    for label, until in (("moving", "2099-12-31"), ("moved", "2020-12-31"))
]
_STOP_SECONDS = 60.0

# What the service asks of the API server. That the chart gives it no more than it needs is proved with the chart.
_RULES = yaml.safe_load("""
- {apiGroups: [""], resources: [namespaces, nodes, pods], verbs: [get, list, watch]}
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, resourceclaims, resourceclaimtemplates]
  verbs: [list, watch]
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [create, delete, get, list, patch, update, watch]
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [get]}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  verbs: [create, delete, get, list, patch, update, watch]
- {apiGroups: [""], resources: [configmaps], verbs: [create, get, list, patch, update, watch]}
- {apiGroups: [""], resources: [events], verbs: [create, list]}
- {apiGroups: [""], resources: [pods], verbs: [patch]}
- {apiGroups: [scheduling.k8s.io], resources: [priorityclasses], verbs: [list, watch]}
- {apiGroups: [kai.scheduler, kueue.x-k8s.io], resources: [topologies], verbs: [list, watch]}
- {apiGroups: [compute.coreweave.com, karpenter.sh], resources: [nodepools], verbs: [list, watch]}
- {apiGroups: [grove.io], resources: [clustertopologybindings, clustertopologies], verbs: [list, watch]}
- {apiGroups: [kueue.x-k8s.io], resources: [resourceflavors], verbs: [list]}
- {apiGroups: [batch], resources: [jobs], verbs: [create]}
- {apiGroups: [scheduling.k8s.io], resources: [podgroups], verbs: [create]}
""")
_WORKLOADS = [
    {"apiGroups": [row.group], "resources": [row.resource], "verbs": ["list", "watch"]}
    for row in BUILT_IN
    if row.makes_pods
]
ROLE: Manifest = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "cks-admission"},
    "rules": [*_RULES, *_WORKLOADS],
}


class Service:
    """One `cks-admission serve` process; it can be killed and started again on the same ports."""

    def __init__(self, control_plane: ControlPlane, **settings: Any) -> None:
        """Prepare one with an account in the control plane; `settings` are sections of the configuration."""
        self.control_plane = control_plane
        port, health = free_ports(["admission", "health"]).values()
        self.url = f"https://127.0.0.1:{port}"
        self.health = f"http://127.0.0.1:{health}"
        self.directory = control_plane.directory / f"service-{secrets.token_hex(4)}"
        self.directory.mkdir()
        self.config = self.directory / "config.yaml"
        self.log = self.directory / "log.jsonl"
        control_plane.objects.apply(ROLE)
        account = control_plane.service_account(NAMESPACE, "cks-admission", role="cks-admission")
        defaults: dict[str, Any] = {
            "listen": {"host": "127.0.0.1", "port": port, "drainSeconds": 0.5},
            "health": {"host": "127.0.0.1", "port": health},
            # Often, for its registration follows once it has looked.
            "tls": {"directory": str(self.directory / "certs"), "checkSeconds": 1},
            "cluster": {"kubeconfig": str(account), "namespace": NAMESPACE},
            # A process that a busy machine stops for a while has not failed.
            "registration": {
                "apply": True,
                "url": self.url,
                **dict.fromkeys(("timeoutSeconds", "openTimeoutSeconds", "essentialTimeoutSeconds"), 10),
            },
            "organization": {"id": ORGANIZATION},
            # What the entries do is proven here, what the policy does in test_labelpolicy.py and with the chart.
            "labels": {"enforcedBy": "webhook"},
            "packs": dict(OFF),
            "log": {"format": "json", "level": "debug"},
        }
        self.config.write_text(yaml.safe_dump({**defaults, **settings}), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it is ready and registered. Raises GaveUpError with the end of its log."""
        before = len(self.events("registered"))
        # One that was killed holds the Lease still, and nobody wants to wait for its end here.
        self.control_plane.objects.delete("lease", "cks-admission", "cks-admission-placer", namespace=NAMESPACE)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([COMMAND, "serve", "--config", self.config], stderr=log)

        def up() -> bool:
            if len(self.events("registered")) == before:
                raise NotYet(self.log.read_text(encoding="utf-8")[-2000:])
            return answers(f"{self.health}/readyz", self.control_plane.ca_file)

        wait_for("the service to be ready and registered", up)

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not ended since."""
        return self._process is not None

    def kill(self) -> None:
        """End it without any warning, as a lost machine would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as Kubernetes does and return its exit code."""
        return self._end(signal.SIGTERM)

    @contextmanager
    def configured(self, **settings: Any) -> Iterator[None]:
        """Run it with other sections of its configuration to the end of the block; it is started again for that."""
        before = self.config.read_text(encoding="utf-8")
        self._start_with(yaml.safe_dump({**yaml.safe_load(before), **settings}))
        try:
            yield
        finally:
            self._start_with(before)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log's events of a name."""
        return jsonlog.events(self.log, name) if self.log.exists() else []

    def metric(self, series: str) -> float:
        """Return the value of a series as it is written in /metrics; 0 if it is not there."""
        with urllib.request.urlopen(f"{self.health}/metrics", timeout=PATIENCE) as answer:  # noqa: S310 - it is http
            lines: list[str] = answer.read().decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == series), 0.0)

    def _start_with(self, configuration: str) -> None:
        self.kill()
        self.config.write_text(configuration, encoding="utf-8")
        self.start()

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        code = self._process.wait(_STOP_SECONDS)
        self._process = None
        return code


@contextmanager
def registered(control_plane: ControlPlane, **settings: Any) -> Iterator[Service]:
    """Run a service that the API server asks; at the end it is stopped and its registration removed."""
    control_plane.namespace(NAMESPACE)
    service = Service(control_plane, **settings)
    try:
        service.start()
        await_registration(control_plane, tolerates=settings.get("tolerations") != {"action": "off"})
        yield service
    finally:
        service.kill()
        removed = subprocess.run(
            [COMMAND, "unregister", "--config", service.config],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if removed.returncode != 0:
            raise AssertionError(removed.stderr)


def await_registration(control_plane: ControlPlane, *, tolerates: bool = True) -> None:
    """Wait until the API server has learnt of the webhooks: until each of the three kinds of entry works.

    tolerates: whether CPU Pods get their toleration, without which nothing changes a Pod.
    """
    reserved = workloads.config_map("default", "canary", {"canary.coreweave.cloud/x": "1"})
    pod = workloads.pod("default", "canary")

    def known() -> bool:
        asked = control_plane.objects.applied
        refusal, changed = (asked(each, user="alice", dry_run=True).body for each in (reserved, pod))
        is_changed = not tolerates or "is_cpu_compute" in str(changed.get("spec"))
        if "are not allowed" not in refusal.get("message", "") or not is_changed:
            raise NotYet(f"{refusal}, {changed}")
        return True

    wait_for("the API server to call the service", known)
