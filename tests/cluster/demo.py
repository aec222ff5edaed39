"""`make cluster`: a real control plane with the registered service and fake Nodes, which runs until it is stopped."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from support.packmodes import OFF

from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.golang import ToolchainError
from cluster.process import ComponentError
from cluster.programs import CONTROL_PLANE
from cluster.service import Service, registered

if TYPE_CHECKING:
    from types import FrameType

PACKS = dict.fromkeys(OFF, "enforce")
CPU_TAINT = {"key": "is_cpu_compute", "effect": "NoSchedule"}
GPU_TAINT = {"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"}

GUIDE = """
A Kubernetes {version} control plane is running, and kube-apiserver asks cks-admission about every write.
You are alice, a cluster-admin. In another terminal:

  export KUBECONFIG={kubeconfig}
  export PATH={tools}:{here}:$PATH

  kubectl get nodes -L node.coreweave.cloud/state
  kubectl label node gpu-1 foo.coreweave.cloud/bar=true      # refused, and why
  kubectl run cpu --image=example.test/cpu:1
  kubectl get pod cpu -o wide                                # on a CPU Node: it got the toleration
  kubectl get pod cpu -o jsonpath='{{.spec.tolerations[?(@.key=="is_cpu_compute")]}}'
  kubectl create configmap notes --from-literal=a=b
  kubectl label configmap notes notcoreweave.cloud/x=true    # fine: another domain
  kubectl create deployment greedy --image=example.test/greedy:1   # and then what a policy refuses:
  kubectl patch deployment greedy -p '{{"spec":{{"template":{{"spec":{{"tolerations":[{{"operator":"Exists"}}]}}}}}}}}'
  kubectl create job train --image=example.test/train:1 -o yaml --dry-run=client > train.yaml
  kubectl annotate --local -f train.yaml -o yaml kai.scheduler/topology=coreweave \\
    kai.scheduler/topology-required-placement=superpod=1 | kubectl apply -f -
  kubectl get pods -l job-name=train -o wide                 # in superpod 1, on gpu-1 or on gpu-3 with its older labels
  cks-admission topology tree --kubeconfig $KUBECONFIG
  curl -s {health}/metrics | grep decisions

The service logs to {log}
Ctrl-C ends everything."""


def main() -> int:
    """Run until a signal. Returns the exit code."""
    try:
        tools = toolchain.ensure(CONTROL_PLANE)
        with ControlPlane(tools) as cluster, registered(cluster, packs=PACKS) as service:
            _populate(cluster)
            print(_guide(cluster, service, str(tools)), flush=True)
            _wait()
            print("ending ...", flush=True)
    except (ToolchainError, ComponentError) as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def _populate(cluster: ControlPlane) -> None:
    production = {"node.coreweave.cloud/state": "production"}
    # The third one is an older Node, which carries the older labels only.
    for number, (prefix, superpod) in enumerate((("backend", "1"), ("backend", "2"), ("ib", "1")), start=1):
        place = {
            f"{prefix}.coreweave.cloud/fabric": "f1",
            f"{prefix}.coreweave.cloud/superpod": superpod,
            "node.coreweave.cloud/rack": str(number),
        }
        cluster.node(f"gpu-{number}", {**production, **place}, [GPU_TAINT], {"nvidia.com/gpu": 8})
    cluster.node("cpu-1", production, [CPU_TAINT])


def _guide(cluster: ControlPlane, service: Service, tools: str) -> str:
    answer = cluster.kubectl("version", "-o", "json", check=True)
    version = answer.stdout.rsplit('"gitVersion": "', 1)[1].split('"', 1)[0]
    return GUIDE.format(
        version=version, kubeconfig=cluster.kubeconfig("alice"), tools=tools, here=Path(sys.executable).parent,
        health=service.health, log=service.log,
    )  # fmt: skip


def _wait() -> None:
    """Wait for Ctrl-C or SIGTERM. Python would die of the latter and leave the folder of the run behind."""
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    while not ended.wait(1.0):
        pass


if __name__ == "__main__":
    sys.exit(main())
