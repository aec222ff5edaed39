"""Dated exceptions: what they allow, and the refusal that a person reads the day after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster import workloads
from policies.labels import USE_OWN_PREFIX

if TYPE_CHECKING:
    from cluster.controlplane import ControlPlane
    from cluster.service import Service

RESERVED = {"foo.coreweave.cloud/bar": "true"}


def test_an_exception_lets_pass_what_it_selects(control_plane: ControlPlane, service: Service, namespace: str) -> None:
    """A reserved label goes through on an object with the label of the exception, whose use is logged."""
    labels = {**RESERVED, "example.org/legacy": "moving"}

    answer = control_plane.apply(workloads.config_map(namespace, labels=labels))

    used = [event["exceptions"] for event in service.events("review") if event["namespace"] == namespace]
    assert (answer.returncode, answer.stderr, used) == (0, "", [{"labels": "exceptions[0]"}])


def test_an_exception_that_has_ended_is_named_in_the_refusal(
    control_plane: ControlPlane, service: Service, namespace: str
) -> None:
    """The refusal is that of the rule, and says since when and why there was an exception."""
    labels = {**RESERVED, "example.org/legacy": "moved"}

    answer = control_plane.apply(workloads.config_map(namespace, labels=labels))

    used = [event["exceptions"] for event in service.events("review") if event["namespace"] == namespace]
    assert used == [{}]
    assert answer.returncode == 1
    assert answer.stderr.endswith(
        "denied the request: Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n"
        '  metadata.labels: foo.coreweave.cloud/bar="true"\n'
        f"{USE_OWN_PREFIX}\n"
        'The exception "exceptions[1]" from labels ended on 2020-12-31 (OPS-1234: moved off by then).\n'
    )
