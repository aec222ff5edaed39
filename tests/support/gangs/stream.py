"""Random events in a small cluster: gangs come and go, Nodes fail, openings fail, and a naive scheduler binds Pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import jsonpatch
from support.gangs.world import BACKEND, GPU, HOST, RACK, World, required

from policies.topology.placement import GATE
from policies.topology.placer.placer import Look

Json = dict[str, Any]
LEVELS = {"superpod": (f"{BACKEND}superpod",), "rack": (f"{BACKEND}superpod", RACK), "hostname": (HOST,)}


class Gang:
    """A gang of a stream. parts: how many Pods with how many GPUs. level: the required one; empty for none."""

    def __init__(self, name: str, level: str, preferred: str, parts: Sequence[tuple[int, int]]) -> None:
        self.name = name
        self.level, self.preferred = level, preferred
        self.annotations = required(level, preferred=preferred)
        self.parts = parts
        self.succeeded = 0
        self.lost = False

    def pods(self) -> list[tuple[str, int, int]]:
        """The name, the part and the index of each Pod."""
        return [(f"{self.name}-{part}-{n}", part, n) for part, (pods, _) in enumerate(self.parts) for n in range(pods)]


class Stream(World):
    """A cluster with a scheduler. disturbed: Pods whose room may have gone since they were opened."""

    def __init__(self, racks: Sequence[int], seed: int) -> None:
        super().__init__()
        self.random = Random(seed)  # noqa: S311 - repeatable
        self.gangs: dict[str, Gang] = {}
        self.disturbed: set[str] = set()
        self.gone: dict[str, Json] = {}
        self.number = 0
        for rack, nodes in enumerate(racks):
            self.racks(f"f/{rack % 2}/{rack}", nodes=nodes)

    # What happens.

    def submit(self, level: str, preferred: str, parts: Sequence[tuple[int, int]]) -> Gang:
        """A Job, or a JobSet of several parts."""
        self.number += 1
        gang = Gang(f"g{self.number}", level, preferred, parts)
        self.gangs[gang.name] = gang
        self._put_root(gang)
        for name, part, index in gang.pods():
            self._create(gang, name, part, index)
        return gang

    def end(self, gang: Gang) -> None:
        """Delete a gang with its Pods."""
        del self.gangs[gang.name]
        kind, group = ("Job", "batch") if len(gang.parts) == 1 else ("JobSet", "jobset.x-k8s.io")
        del self.roots[kind, gang.name]
        self.placer.remove_root(group, kind, "team", gang.name)
        self.delete(*(name for name, _, _ in gang.pods() if name in self.pods))

    def succeed(self, gang: Gang) -> None:
        """Let one Pod of a Job that runs finish."""
        running = [name for name, _, _ in gang.pods() if name in self.pods and self.node_of(name)]
        if len(gang.parts) == 1 and running:
            name = self.random.choice(running)
            self.finish(name)
            del self.pods[name]
            self.placer.remove_pod("team", name)
            gang.succeeded += 1
            self._put_root(gang)
            if gang.succeeded == gang.parts[0][0]:
                self.end(gang)

    def replaced(self, gang: Gang) -> None:
        """Delete a Pod, of which the controller makes another one."""
        own = [(name, part, index) for name, part, index in gang.pods() if name in self.pods]
        if own:
            name, part, index = self.random.choice(own)
            self.delete(name)
            self._create(gang, name, part, index)

    def lose(self, name: str) -> None:
        """Lose a Node, and let the controllers make other Pods for those on it."""
        self.gone[name] = self.nodes.pop(name)
        self.placer.remove_node(name)
        self.disturbed |= {pod for pod in self.pods if self.is_open(pod)}
        for gang in self.gangs.values():
            for pod, part, index in gang.pods():
                if pod in self.pods and self.node_of(pod) == name:
                    gang.lost = True
                    self.delete(pod)
                    self._create(gang, pod, part, index)

    def restore(self) -> None:
        """Bring all Nodes back."""
        for name, obj in self.gone.items():
            labels = {key: value for key, value in obj["metadata"]["labels"].items() if key != HOST}
            self.node(name, labels)
        self.gone.clear()

    def carry_out(self, look: Look, *, failing: int = 0) -> None:
        """Carry out the openings of a look, but for one in `failing`."""
        for opening in look.openings:
            if failing and self.random.randrange(failing) == 0:
                self.placer.failed(opening)
            else:
                self.put(jsonpatch.apply_patch(self.pods[opening.name], opening.patch))

    # The scheduler.

    def bind_some(self, most: int = 100) -> None:
        """Bind opened Pods in a random order, each to a random Node that its required affinity allows."""
        waiting = [name for name in self.pods if self.is_open(name)]
        self.random.shuffle(waiting)
        for name in waiting[:most]:
            if nodes := self.nodes_for(name):
                self.bind(name, self.random.choice(nodes))
                gang = self.gangs[name.split("-")[0]]
                if not gang.level and self.wishes(name)[-1:] != [self.node_of(name)]:
                    # One that only prefers to be somewhere was let go without room, and may take that of others.
                    self.disturbed |= {pod for pod in self.pods if self.is_open(pod)}

    def nodes_for(self, name: str) -> list[str]:
        """The Nodes on which a Pod may run and has room now."""
        free = self.free()
        needs, gpus = self.needs(name), self._gpus(self.pods[name])
        return [
            node
            for node, obj in self.nodes.items()
            if free[node] >= gpus
            and (
                not needs or any(all(obj["metadata"]["labels"].get(key) in term[key] for key in term) for term in needs)
            )
        ]

    def free(self) -> dict[str, int]:
        """The GPUs that bound Pods leave on each Node."""
        used: Counter[str] = Counter()
        for name, pod in self.pods.items():
            used[self.node_of(name)] += self._gpus(pod)
        return {name: int(obj["status"]["allocatable"][GPU]) - used[name] for name, obj in self.nodes.items()}

    def is_open(self, name: str) -> bool:
        """Whether a Pod was opened and is not bound."""
        spec = self.pods[name]["spec"]
        return not spec.get("nodeName") and not any(gate["name"] == GATE for gate in spec.get("schedulingGates", ()))

    def node_of(self, name: str) -> str:
        """The Node of a Pod; empty if it is not bound."""
        return str(self.pods[name]["spec"].get("nodeName", ""))

    def domain_of(self, gang: Gang, node: str) -> tuple[str, ...]:
        """The domain of a Node at the level of a gang."""
        labels = (self.nodes.get(node) or self.gone[node])["metadata"]["labels"]
        return tuple(labels[key] for key in LEVELS[gang.level])

    def fits_empty(self, gang: Gang) -> bool:
        """Whether a domain of the gang's level could hold it if nothing else ran."""
        sizes = sorted((gpus for pods, gpus in gang.parts for _ in range(pods)), reverse=True)
        domains: Counter[tuple[str, ...]] = Counter()
        for name in self.nodes:
            domains[self.domain_of(gang, name) if gang.level else ()] += 1
        return any(_packs(sizes, [8] * nodes) for nodes in domains.values())

    def _create(self, gang: Gang, name: str, part: int, index: int) -> None:
        labels = {"batch.kubernetes.io/job-completion-index": str(index)}
        owner = ("batch/v1", "Job", gang.name)
        if len(gang.parts) > 1:
            labels["jobset.sigs.k8s.io/jobset-name"] = gang.name
            labels["jobset.sigs.k8s.io/replicatedjob-name"] = f"part{part}"
            owner = ("batch/v1", "Job", f"{gang.name}-part{part}-0")
        self.number += 1
        self.pod(name, owner, self.template(gang.annotations, gang.parts[part][1]), labels)
        self.pods[name]["metadata"]["uid"] = f"uid-{self.number}"
        self.put(self.pods[name])

    def _put_root(self, gang: Gang) -> None:
        jobs = [
            {"parallelism": pods, "completions": pods, "template": self.template(gang.annotations, gpus)}
            for pods, gpus in gang.parts
        ]
        if len(jobs) == 1:
            self.root("batch/v1", "Job", gang.name, jobs[0])
            self.roots["Job", gang.name]["status"] = {"succeeded": gang.succeeded}
            self.placer.put_root(self.roots["Job", gang.name])
        else:
            replicated = [{"name": f"part{number}", "template": {"spec": job}} for number, job in enumerate(jobs)]
            self.root("jobset.x-k8s.io/v1alpha2", "JobSet", gang.name, {"replicatedJobs": replicated})

    @staticmethod
    def _gpus(pod: Json) -> int:
        return int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])


def _packs(sizes: Sequence[int], free: list[int]) -> bool:
    if not sizes:
        return True
    for node in sorted({amount: index for index, amount in enumerate(free)}.values()):
        if free[node] >= sizes[0]:
            free[node] -= sizes[0]
            done = _packs(sizes[1:], free)
            free[node] += sizes[0]
            if done:
                return True
    return False
