"""The chart, installed by helm into a control plane where its Pods really run, behind a load balancer."""

from __future__ import annotations

import base64
import json
import subprocess
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

from certs.material import CLOCK_SKEW, Bundle, merge, new_authority
from cluster import jsonlog, load, toolchain
from cluster.kubectl import BRIEF
from cluster.kubelet import Kubelet
from cluster.polling import NotYet, wait_for, wait_until
from cluster.process import Component
from cluster.workspace import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cryptography.x509 import Certificate

    from cluster.controlplane import ControlPlane
    from cluster.kubelet import Running

CHART = Path(__file__).parents[2] / "helm" / "cks-admission"
NAME = NAMESPACE = "cks-admission"
MANAGE = f"{NAME}-manage"
PLACER = f"{NAME}-placer"
ACCOUNTS = (NAME, MANAGE, PLACER, f"{NAME}-unregister", f"{NAME}-release")
NODES = ("host-1", "host-2")

_HELM_SECONDS = 300
_LIFE = timedelta(days=300)  # of a CA
_ROLL_OUT_SECONDS = 240.0  # for Pods that start one after the other, and end after a grace period
# Three replicas, manage and two placers, those that they replace, those that these replaced and that still end, and
# two hooks'.
_PODS = 20


class HelmError(AssertionError):
    """A helm call that had to succeed did not; an AssertionError, as a test is what asked."""


class Release:
    """The chart's release `cks-admission` in the Namespace of that name, and what runs of it while the block lasts.

    The API server reaches the Pods by a URL, that of etcd's TCP proxy, as it would reach a Service.
    """

    def __init__(self, control_plane: ControlPlane, **values: Any) -> None:
        """Prepare it; nothing is installed yet. values: of the chart, beside what this machine needs."""
        self.control_plane = control_plane
        self.values = values
        self.admission, self.health, balancer = free_ports(["admission", "health", "balancer"]).values()
        self.addresses = [f"127.0.0.{number + 2}" for number in range(_PODS)]
        self.url = f"https://127.0.0.1:{balancer}"
        self._stack = ExitStack()
        self._tools = toolchain.ensure(("etcd", "helm", "kubectl"))

    def __enter__(self) -> Self:
        """Make the Namespace and Nodes, start the balancer and the kubelet. `install` comes next."""
        with ExitStack() as stack:
            cluster = self.control_plane
            cluster.namespace(NAMESPACE)
            for name in NODES:
                if not cluster.objects.find("node", name):
                    cluster.node(name, {"topology.kubernetes.io/zone": f"zone-{name}"})
            self._balance(stack)
            self.kubelet = stack.enter_context(Kubelet(cluster, NAMESPACE, self.addresses))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes. The release itself stays, unless `uninstall` was called."""
        self._stack.close()

    def helm(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run helm as the administrator. Raises HelmError if it fails, with all that it printed."""
        home = self.control_plane.directory / "helm"
        environment = {
            "HOME": str(home),
            "KUBECONFIG": str(self.control_plane.kubeconfig("admin")),
            "PATH": str(self._tools),
            "NO_PROXY": "127.0.0.1",
            **BRIEF,
        }
        command = [str(self._tools / "helm"), "--namespace", NAMESPACE, *arguments]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_HELM_SECONDS, check=False
        )
        if check and done.returncode != 0:
            raise HelmError(f"helm {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def install(self, *arguments: str, chart: Path = CHART, **values: Any) -> None:
        """Run `helm upgrade --install` and wait until all replicas are ready. values: besides those given first."""
        file = self.file(self.values, values)
        self.helm("upgrade", "--install", NAME, str(chart), "--values", str(file), *arguments)
        self.wait()

    def file(self, *values: Mapping[str, Any]) -> Path:
        """Write what this machine needs, and these values over it, and return the file."""
        file = self.control_plane.directory / "values.yaml"
        file.write_text(yaml.safe_dump(merged(self._required(), *values)), encoding="utf-8")
        return file

    @contextmanager
    def released(self, **values: Any) -> Iterator[None]:
        """Install it with these values and the policy of `load`; once the API server asks it, to the end of the block.

        At the end it is removed, and its Pods are gone.
        """
        self.values = {"policies": {"load.yaml": load.POLICIES}, **values}
        self.install()
        self.wait_until_asked()
        yield
        self.uninstall()

    def uninstall(self) -> None:
        """Run `helm uninstall`, and wait until the Pods have ended and are gone."""
        self.helm("uninstall", NAME, "--wait", "--timeout", "240s")
        self.await_end()

    def await_end(self) -> None:
        """Wait until the Pods have ended and are gone."""
        pods = self.control_plane.objects
        wait_for("the Pods to end", lambda: not self.kubelet.named() and not pods.get("pods", "-n", NAMESPACE)["items"])

    def wait(self) -> list[Running]:
        """Wait until the roll-out is complete, and return the replicas' Pods, which are all ready."""

        def complete() -> list[Running]:
            deployment = self._read("deployment", NAME)
            others = [found for name in (MANAGE, PLACER) if (found := self._read("deployment", name))]
            if not all(rolled_out(each) for each in (deployment, *others)):
                raise NotYet(f"{[each.get('status') for each in (deployment, *others)]}\n{self._said()}")
            # Controllers learn later than the kubelet of a Pod whose process has ended just now.
            ready, wanted = self.kubelet.ready(), deployment["spec"]["replicas"]
            if len(ready) != wanted:
                raise NotYet(f"{len(ready)} of {wanted} Pods are ready" + self._said())
            return ready

        return wait_for("the roll-out", complete, _ROLL_OUT_SECONDS)

    def wait_until_asked(self) -> None:
        """Wait until the API server asks the service, about reserved labels and about the policy of `load`."""
        words = {"foo.coreweave.cloud/bar": "are not allowed", "size": "Huge ones are not wanted."}

        wait_until(
            "the API server to ask the service",
            lambda: {key: self.refusal({key: "huge"}) for key in words},
            lambda found: all(text in found[key] for key, text in words.items()),
            _ROLL_OUT_SECONDS,
        )

    def refusal(self, labels: Mapping[str, str], namespace: str = "load") -> str:
        """Return what the API server tells alice of a ConfigMap with these labels; nothing where it may be made."""
        metadata = {"name": "asked", "namespace": namespace, "labels": dict(labels)}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        answer = self.control_plane.objects.applied(manifest, user="alice", dry_run=True)
        return str(answer.body["message"]) if answer.code >= HTTPStatus.BAD_REQUEST else ""

    def holder(self) -> str:
        """Return the name of the Pod that holds the Lease; empty for none."""
        spec = self._read("lease", NAME).get("spec", {})
        return str(spec.get("holderIdentity", "")).rpartition("_")[0]

    def secret(self, name: str = f"{NAME}-ca") -> dict[str, bytes]:
        """Return what a Secret holds, that with the CA."""
        data = self._read("secret", name).get("data", {})
        return {key: base64.b64decode(text) for key, text in data.items()}

    def age(self, seconds: float) -> Certificate:
        """Put a CA into the Secret of which two thirds are over in so many seconds, and return it.

        The API server trusts it beside those that it trusts already.
        """
        now = datetime.now(UTC)
        made = now + timedelta(seconds=seconds) + CLOCK_SKEW - (_LIFE + CLOCK_SKEW) * 2 / 3
        ageing = new_authority(made, lifetime=_LIFE)
        bundle = merge((ageing.certificate, *Bundle.from_pem(self.secret()["ca-bundle.crt"])), now)
        contents = {"ca.crt": ageing.cert_pem, "ca.key": ageing.key_pem, "ca-bundle.crt": bundle.pem}
        data = {key: base64.b64encode(content).decode() for key, content in contents.items()}
        patch = ("patch", "secret", f"{NAME}-ca", "-n", NAMESPACE, "--type=merge", "-p", json.dumps({"data": data}))
        self.control_plane.kubectl(*patch, user="admin", check=True)
        return ageing.certificate

    def _read(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object of the release's Namespace; nothing where there is none."""
        return self.control_plane.objects.find(kind, name, "-n", NAMESPACE)

    def _said(self) -> str:
        """The last lines of what Pods logged, for the case that they do not become ready."""
        logs = [each.log.read_text(encoding="utf-8")[-1500:] for each in self.kubelet.named()]
        return "\n".join([*logs, *(log[-1500:] for _, _, log in self.kubelet.ended[-2:])])

    def _required(self) -> dict[str, Any]:
        """What replaces the network between the API server and the Service: a URL on 127.0.0.1.

        And a longer time for an answer: a process that a busy machine stops for a while has not failed.
        """
        timeouts = dict.fromkeys(("timeoutSeconds", "openTimeoutSeconds", "essentialTimeoutSeconds"), 10)
        registration = {"url": self.url, **timeouts}
        ports = {"listen": {"port": self.admission}, "health": {"port": self.health}}
        return {"config": {**ports, "registration": registration, "tls": {"checkSeconds": 1.0}}}

    def _balance(self, stack: ExitStack) -> None:
        """Start the balancer in front of the Pods' ports; it leaves out those where nobody listens."""
        directory = self.control_plane.directory
        endpoints = ",".join(f"{address}:{self.admission}" for address in self.addresses)
        command = [
            str(self._tools / "etcd"),
            "gateway",
            "start",
            f"--listen-addr={self.url.removeprefix('https://')}",
            f"--endpoints={endpoints}",
            "--retry-delay=300ms",
        ]
        balancer = Component("balancer", command, directory / "logs" / "balancer.log", {})
        stack.callback(balancer.end, 5.0)
        stack.callback(balancer.terminate)


def rolled_out(deployment: Mapping[str, Any]) -> bool:
    """Tell whether a roll-out is complete, as `kubectl rollout status` does."""
    status = deployment.get("status", {})
    if status.get("observedGeneration", -1) < deployment.get("metadata", {}).get("generation", 0):
        return False
    counts = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")}
    return counts == {deployment["spec"]["replicas"]}


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return maps laid over each other, maps in them too, as helm lays values."""
    found: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = found.get(key)
            found[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return found


def events(pod: Running, name: str) -> list[dict[str, Any]]:
    """Return what a Pod logged under a name."""
    return jsonlog.events(pod.log, name)
