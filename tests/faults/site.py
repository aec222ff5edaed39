"""Where faults are done: a directory for each, and one control plane for those that need it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

from cluster import load, toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE
from cluster.service import NAMESPACE, ROLE


@dataclass(frozen=True)
class Sizes:
    """How much is done. edits: of a policy. edit_rate: edits a second. seconds: of calls, where any number will do."""

    edits: int = 2000
    edit_rate: float = 20.0
    seconds: float = 8.0


@dataclass
class Site:
    """What a run of faults shares, to the end of the block."""

    sizes: Sizes = field(default_factory=Sizes)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        """Nothing is started before somebody needs it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the control plane, and remove the directories."""
        self._stack.close()

    def directory(self) -> Path:
        """A new directory."""
        made = tempfile.TemporaryDirectory(prefix="cks-admission-fault-", ignore_cleanup_errors=True)
        return Path(self._stack.enter_context(made))

    @cached_property
    def control_plane(self) -> ControlPlane:
        """A control plane for processes that use `account`, started at its first use."""
        return self._started(NAMESPACE)

    @cached_property
    def vacant(self) -> ControlPlane:
        """Another one for releases of the chart, which make roles of the same names; with the Namespace of the load."""
        return self._started(load.NAMESPACE)

    @cached_property
    def account(self) -> Path:
        """The kubeconfig of the service's account there."""
        self.control_plane.objects.apply(ROLE)
        return self.control_plane.service_account(NAMESPACE, "cks-admission", role="cks-admission")

    def _started(self, namespace: str) -> ControlPlane:
        running = self._stack.enter_context(ControlPlane(toolchain.ensure(CONTROL_PLANE)))
        running.namespace(namespace)
        return running

    def cluster(self, kubeconfig: Path | None = None) -> Mapping[str, object]:
        """The section `cluster` of a service that watches this control plane. kubeconfig: by default its account's."""
        return {"kubeconfig": str(kubeconfig or self.account), "namespace": NAMESPACE}
