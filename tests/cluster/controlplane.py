"""A real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler, and kwok as the kubelets."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self, TypeVar

import yaml

from cluster import components, kubectl, manifests
from cluster.authority import Authority
from cluster.kubectl import KubectlError
from cluster.objects import Objects
from cluster.polling import PATIENCE, GaveUpError, NotYet, answers, wait_for, wait_until
from cluster.process import Component
from cluster.workspace import free_ports, workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cluster.kubectl import Completed
    from cluster.manifests import Manifest

T = TypeVar("T")

_STOP_SECONDS = 5.0
# A quarter of the garbage collections: there is memory enough, and CPU is what tests wait for.
_SPENDING_MEMORY = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
_PASSED_ON = ("PATH", "TMPDIR", "LD_LIBRARY_PATH")  # the last for the Python that launches a component


class ControlPlane:
    """A running control plane, from `with ControlPlane(tools) as cluster` to the end of the block.

    Users: `admin` (in system:masters, for setting up only), `alice` (a cluster-admin by RBAC, not in system:masters),
    and the components by their names. Anyone else: `identity`, `kubelet`, `service_account`.
    """

    directory: Path
    """Logs, certificates and kubeconfigs; removed at the end."""
    server: str
    """The address of the API server."""
    ca_file: Path
    """The CA of everything that serves here."""
    audit_log: Path
    """What the API server audits, a JSON object per line."""
    objects: Objects
    """What is in it, read and written without kubectl."""

    def __init__(self, tools: Path, **options: Any) -> None:
        """Prepare one that runs the programs in the folder `tools` (see toolchain.ensure); nothing is started yet.

        options: fields of components.Layout that differ from their defaults.
        """
        self._tools = tools
        self._options = options
        self._stack = ExitStack()
        self._components: dict[str, Component] = {}
        self._kubeconfigs: dict[str, Path] = {}

    def __enter__(self) -> Self:
        """Start everything and wait until it works.

        Raises ComponentError, with the end of its log, if a component ends or is not ready in time. The calling thread
        must outlive the control plane: the components are killed with it.
        """
        with ExitStack() as stack:
            self.directory = stack.enter_context(workspace())
            stack.callback(self._stop)
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop exactly what was started, and remove the folder."""
        self._stack.close()

    def kubectl(
        self, *arguments: str, user: str | Path = "alice", input: str | None = None, check: bool = False
    ) -> Completed:
        """Run kubectl as `user`: a user's name, or a kubeconfig.

        Raises KubectlError if it does not come back, or with `check` if it does not succeed.
        """
        kubeconfig = self.kubeconfig(user) if isinstance(user, str) else user
        completed = kubectl.run(self._tools / "kubectl", self.directory / "home", kubeconfig, arguments, input)
        if check:
            kubectl.require(completed, arguments)
        return completed

    def apply(
        self,
        manifest: str | Manifest | Sequence[Manifest],
        *arguments: str,
        user: str | Path = "alice",
        check: bool = False,
    ) -> Completed:
        """Run `kubectl apply -f -` on YAML text, one object or several; more arguments as in `--server-side`."""
        return self.kubectl("apply", "-f", "-", *arguments, user=user, input=_yaml(manifest), check=check)

    def get(self, *arguments: str) -> Manifest:
        """Return what `kubectl get ARGUMENTS -o json` prints, decoded; see Objects.get. Raises KubectlError."""
        return self.objects.get(*arguments)

    def wait_for(self, description: str, probe: Callable[[], T], timeout: float = PATIENCE) -> T:
        """Wait until `probe` returns something true and return that; see polling.wait_for.

        Raises ComponentError if meanwhile a component ended: then the wait was in vain.
        """

        def watched() -> T:
            self._check()
            return probe()

        return wait_for(description, watched, timeout)

    def wait_until(self, description: str, look: Callable[[], T], wanted: Callable[[T], object]) -> T:
        """Call `look` until what it returns is wanted, and return that; see polling.wait_until.

        Raises ComponentError if meanwhile a component ended.
        """

        def watched() -> T:
            self._check()
            return look()

        return wait_until(description, watched, wanted)

    def restart_api_server(self) -> None:
        """End the API server, start it again, and wait until it is ready. Raises ComponentError."""
        self._restart("kube-apiserver")

    def upgrade_api_server(self, tools: Path) -> None:
        """End the API server, and start the one in the folder `tools` in its place, on the same store.

        Raises ComponentError.
        """
        self._restart("kube-apiserver", tools / "kube-apiserver")

    def restart_scheduler(self) -> None:
        """End the scheduler and start it again: it breaks ties by the order in which it lists Nodes, and where it was.

        Raises ComponentError.
        """
        self._restart("kube-scheduler")

    def _restart(self, name: str, program: Path | None = None) -> None:
        before = self.component(name)
        before.terminate()
        before.end(_STOP_SECONDS)
        command = [str(program or before.command[0]), *before.command[1:]]
        self._await_answer(self._launch(name, command), f"https://127.0.0.1:{self._ports[name]}/readyz")

    def logs(self, component: str) -> str:
        """Return all that a component has logged. Raises KeyError for a name that is none."""
        return self.component(component).log.read_text(encoding="utf-8", errors="replace")

    def component(self, name: str) -> Component:
        """Return one of the running components. Raises KeyError for a name that is none."""
        return self._components[name]

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of a user by name. Raises KeyError if there is none of that name."""
        return self._kubeconfigs[user]

    def identity(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig whose client certificate says that its owner is this user in these groups."""
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join([user, *groups]))
        path = self.directory / f"{name}-{os.urandom(4).hex()}.kubeconfig"
        return self._authority.certificate_kubeconfig(path, self.server, user, groups)

    def kubelet(self, node_name: str) -> Path:
        """Return the kubeconfig of the kubelet on a Node, whom the Node authorizer and NodeRestriction know."""
        return self.identity(f"system:node:{node_name}", ["system:nodes"])

    def service_account(self, namespace: str, name: str, role: str | None = None) -> Path:
        """Return a kubeconfig with a token of a service account, made if need be, bound to the ClusterRole `role`."""
        self.objects.apply(manifests.service_account(namespace, name))
        if role is not None:
            subject = manifests.service_account_subject(namespace, name)
            self.objects.apply(manifests.cluster_role_binding(f"{namespace}:{name}:{role}", role, subject))
        token = self.objects.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}},
        )
        path = self.directory / f"{namespace}-{name}-{os.urandom(4).hex()}.kubeconfig"
        return self._authority.kubeconfig(path, self.server, name, {"token": token["status"]["token"]})

    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Make a Namespace (by admin), and wait until Pods can be created in it: until its service account is there.

        One that is there already stays as it is, with these labels.
        """
        self.objects.apply(manifests.namespace(name, labels))
        self._await_service_account(name)

    def node(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        capacity: Mapping[str, str | int] | None = None,
    ) -> None:
        """Make a fake Node (by admin) and wait until Pods can be scheduled to it.

        `capacity` is added to that of a big CPU machine: {"nvidia.com/gpu": 8} makes it a GPU Node.
        """
        self.objects.create(manifests.node(name, labels, taints, capacity))

        def ready() -> bool:
            node = self.get("node", name)
            conditions = {item["type"]: item["status"] for item in node["status"].get("conditions", [])}
            keys = {taint["key"] for taint in node["spec"].get("taints", [])}
            if conditions.get("Ready") != "True" or "node.kubernetes.io/not-ready" in keys:
                raise NotYet(f"conditions {conditions}, taints {sorted(keys)}")
            return True

        self._await(self.component("kwok"), f"Node {name} to be ready", ready)

    def await_nodes(self, selector: str, count: int) -> None:
        """Wait until so many Nodes with a label are ready, which have one taint of their own then and no other."""
        self.wait_until(
            f"the Nodes with {selector} to be ready",
            lambda: [node["spec"].get("taints", []) for node in self.get("nodes", "-l", selector)["items"]],
            lambda taints: [len(each) for each in taints] == [1] * count,
        )

    def _prepare(self) -> components.Layout:
        """Directories, certificates and ports: all that the components need before they are started."""
        for name in ("home", "logs"):
            (self.directory / name).mkdir()
        self._authority = Authority(self.directory)
        self.ca_file = self._authority.ca_file
        layout = components.Layout(
            self._tools,
            self.directory,
            free_ports(components.PORTS),
            self._authority,
            self._kubeconfigs,
            **self._options,
        )
        self.audit_log = layout.audit_log
        self._ports = layout.ports
        self.server = layout.server
        self._kubeconfigs["admin"] = self.identity("admin", ["system:masters"])
        self.objects = Objects(self)
        return layout

    def _start(self) -> None:
        layout = self._prepare()
        self._kubeconfigs |= {"alice": self.identity("alice")}
        self._kubeconfigs |= {name: self.identity(*who) for name, who in components.IDENTITIES.items()}
        self._launch("etcd", components.etcd(layout))
        api = self._launch("kube-apiserver", components.kube_apiserver(layout))
        self._await_answer(api, f"{self.server}/readyz")
        self.objects.apply(manifests.users())
        ports = layout.ports
        manager = self._launch("kube-controller-manager", components.kube_controller_manager(layout))
        scheduler = self._launch("kube-scheduler", components.kube_scheduler(layout))
        kwok = self._launch("kwok", components.kwok(layout))
        self._await_answer(manager, f"https://127.0.0.1:{ports['kube-controller-manager']}/healthz")
        self._await_answer(scheduler, f"https://127.0.0.1:{ports['kube-scheduler']}/readyz")
        self._await_answer(kwok, f"http://127.0.0.1:{ports['kwok']}/healthz")
        self._await_service_account("default")

    def _launch(self, name: str, command: list[str]) -> Component:
        # A home of their own: kwok would read ~/.kwok, and whoever looks for a kubeconfig must not find the user's. No
        # proxy settings either: kube-apiserver would ask a proxy for the webhook on 127.0.0.1.
        environment = {key: value for key, value in os.environ.items() if key in _PASSED_ON}
        environment |= {"HOME": str(self.directory / "home"), **_SPENDING_MEMORY}
        component = Component(name, command, self.directory / "logs" / f"{name}.log", environment)
        self._components[name] = component
        return component

    def _await(self, component: Component, description: str, probe: Callable[[], bool]) -> None:
        """Wait for something that one component has to do, and quote it if it does not."""
        try:
            self.wait_for(description, probe)
        except GaveUpError as error:
            raise component.error(f"does not do its part: {error}") from error

    def _await_answer(self, component: Component, url: str) -> None:
        self._await(component, url, lambda: answers(url, self.ca_file))

    def _await_service_account(self, namespace: str) -> None:
        def made() -> bool:
            try:
                return bool(self.get("serviceaccount/default", "configmap/kube-root-ca.crt", "-n", namespace))
            except KubectlError as error:
                raise NotYet(str(error)) from error

        manager = self.component("kube-controller-manager")
        self._await(manager, f"the default service account of {namespace}", made)

    def _check(self) -> None:
        for component in self._components.values():
            component.check()

    def _stop(self) -> None:
        """End the API server and its clients together, and then etcd, which nobody needs any more."""
        running = list(self._components.values())
        for group in (running[1:], running[:1]):
            for component in group:
                component.terminate()
            for component in group:
                component.end(_STOP_SECONDS)
        if self._components:
            self.objects.close()
        self._components.clear()


def _yaml(manifest: str | Manifest | Sequence[Manifest]) -> str:
    if isinstance(manifest, str):
        return manifest
    return yaml.safe_dump_all([manifest] if isinstance(manifest, dict) else manifest, sort_keys=False)
