"""Writes go on while replicas die, drain, are replaced, and change their leader, their CA and their policies."""

from __future__ import annotations

import base64
import json
import ssl
import sys
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest

from certs.errors import PemError
from certs.material import Bundle, issued_by, load_certificates, new_authority
from cluster import jsonlog
from cluster.load import WRITES, Load
from cluster.polling import PATIENCE, NotYet, wait_for, wait_until
from cluster.release import MANAGE, NAME, NAMESPACE, events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.x509 import Certificate

    from cluster.controlplane import ControlPlane
    from cluster.load import Phase
    from cluster.release import Release

STEADY_SECONDS = 2.0
AGES_SECONDS = (30.0, 90.0, 300.0)  # a new CA is shown 10 s after all know it, on a busy machine many times as late
MORE = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-red}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations:
  - expression: "!has(object.metadata.labels) || !('colour' in object.metadata.labels)"
    message: No red ones.
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-red}
spec: {policyName: no-red, validationActions: [Deny]}
"""
EXCEPTIONS = [{"key": "new.coreweave.cloud/x", "kinds": ["ConfigMap"]}]
CHANGED = [
    f"labels.exceptions[{key}]"
    for key in (
        "qos.coreweave.cloud/interruptable",
        "qos.coreweave.com/graceful-interruptible",
        "metadata.coreweave.cloud/job",
        "new.coreweave.cloud/x",
    )
]
"""What the log says of a list of exceptions that takes the place of the shipped one."""


@pytest.fixture(scope="module")
def writing(pytestconfig: pytest.Config, audited: ControlPlane, installed: Release) -> Iterator[Load]:
    """Writers that go on through all the tests of this file; the figures are printed in the end."""
    installed.wait()
    with Load(audited) as running:
        yield running
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", "writes while something happens to the service:", *running.phases, sep="\n  ", file=sys.stderr)


def untroubled(phase: Phase) -> None:
    """Whether every kind of write was sent, and each had the answer that it has to have."""
    assert (phase.failures, phase.total("unasked")) == ([], 0)
    assert {name for name, _ in phase.counts} == {write.name for write in WRITES}


def test_steady(writing: Load) -> None:
    """While nothing happens every write has its answer."""
    with writing.phase("steady") as phase:
        writing.settle(STEADY_SECONDS)

    untroubled(phase)


def test_a_killed_replica(installed: Release, writing: Load) -> None:
    """When a replica is lost, no write is let through that should fail, and only calls that it had open are lost.

    The API server does not repeat a call whose connection broke, so these get what the failure policy says.
    """
    victim, *others = installed.kubelet.ready()
    with writing.phase("SIGKILL") as phase:
        writing.settle(1.0)
        victim.process.kill()
        writing.settle(STEADY_SECONDS)
        installed.wait()

    assert {name for name, verdict in phase.counts if verdict == "failed"} <= {"plain", "sized"}
    # Whoever lost one may meet another connection whose end has not been noticed yet.
    assert phase.total("failed") <= 2 * writing.writers
    assert all("failed calling webhook" in text for text in phase.failures)
    assert [other.process.poll() for other in others] == [None, None]


def test_a_drained_replica(audited: ControlPlane, installed: Release, writing: Load) -> None:
    """An evicted replica ends in order, another one takes its place, and no write notices."""
    victim = installed.kubelet.ready()[0]
    with writing.phase("eviction (SIGTERM)") as phase:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim.name}}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{victim.name}/eviction"

        # the disruption budget may not know yet that the other replica is ready
        wait_until(
            "the eviction",
            lambda: audited.kubectl("create", "--raw", path, "-f", "-", user="admin", input=json.dumps(eviction)),
            lambda answer: answer.returncode == 0,
        )
        wait_for("the Pod to end", lambda: victim.process.poll() is not None)
        installed.wait()

    untroubled(phase)
    assert [code for name, code, _ in installed.kubelet.ended if name == victim.name][-1] == 0


def test_another_leader(audited: ControlPlane, installed: Release, writing: Load) -> None:
    """When the manage that holds the Lease goes, the one in its place takes it over, and no write notices."""
    names = {each.name for each in installed.kubelet.ready("manage")}
    wait_for("a holder that is there", lambda: installed.holder() in names)
    before = installed.holder()
    with writing.phase("another leader") as phase:
        audited.kubectl("delete", "pod", before, "-n", NAMESPACE, "--wait=false", user="admin", check=True)
        wait_for("another holder", lambda: installed.holder() not in ("", before))
        installed.wait()

    untroubled(phase)


def test_no_manage(audited: ControlPlane, installed: Release, writing: Load) -> None:
    """While manage is down replicas serve on, are ready, and take new policies; then it goes on where it was."""
    before = {each.name for each in installed.kubelet.ready()}
    with writing.phase("no manage") as phase:
        scale(audited, 0)
        wait_for("manage to end", lambda: not installed.kubelet.named(MANAGE))
        installed.install("--set", "manage.replicas=0", policies={"more.yaml": MORE})
        wait_for("the new policy", lambda: "No red ones." in installed.refusal({"colour": "red"}))
        writing.settle(STEADY_SECONDS)
        ready = {each.name for each in installed.kubelet.ready()}
        installed.install()
        wait_for(
            "manage to lead", lambda: installed.holder() in {each.name for each in installed.kubelet.named(MANAGE)}
        )

    untroubled(phase)
    assert ready == before


def test_the_authority_rotates(installed: Release, writing: Load) -> None:
    """A CA of which two thirds are over is replaced, and goes once all replicas show leaves of the new one.

    The leaf comes after the bundle, and the old CA goes after the leaf has come to all. It is one that was made 200
    days ago, of a life of 300, so that its time comes in the middle of the test.
    """
    first = authority(installed)
    with writing.phase("CA rotation") as phase:
        ageing, seconds = aged(installed)
        wait_for("a new CA", lambda: authority(installed) != ageing, seconds + PATIENCE)
        new = authority(installed)
        all_show(installed, new)
        wait_for("the old CA to go", lambda: bundle(installed) == {new})
        writing.settle(STEADY_SECONDS)

    untroubled(phase)
    assert new != first
    (manager,) = installed.kubelet.ready("manage")
    log = [(event["event"], str(event.get("reason", ""))) for event in jsonlog.entries(manager.log)]
    renewed = max(at for at, (_, reason) in enumerate(log) if reason.startswith("ca.crt was renewed: two thirds"))
    steps = [
        "registered" if event == "registered" else "retired" if "no longer holds" in reason else "leaf"
        for event, reason in log[renewed:]
        if event == "registered" or reason.startswith("tls.crt was renewed") or "no longer holds" in reason
    ]
    assert steps[:3] == ["registered", "leaf", "retired"]


@pytest.mark.parametrize("fault", ["deleted", "truncated", "foreign"])
def test_the_secret_is_spoilt(audited: ControlPlane, installed: Release, writing: Load, fault: str) -> None:
    """A Secret that is gone, torn or another's gets a new CA, the lost one is trusted on, and no write notices."""
    before = authority(installed)
    with writing.phase(f"Secret {fault}") as phase:
        strange = spoil(audited, fault)
        wait_for("a new CA", lambda: authority(installed) not in (before, strange))
        all_show(installed, authority(installed))
        wait_for("the old CA to go", lambda: bundle(installed) == {authority(installed)})
        writing.settle(STEADY_SECONDS)

    untroubled(phase)


def test_policies_and_configuration_reload(installed: Release, writing: Load) -> None:
    """`helm upgrade` with another policy and another configuration changes what is refused, in Pods that go on."""
    before = {each.name for each in installed.kubelet.ready()}
    with writing.phase("reload") as phase:
        installed.install(policies={"more.yaml": MORE}, config={"labels": {"exceptions": EXCEPTIONS}})

        wait_until(
            "the new policy and the new configuration",
            lambda: (installed.refusal({"colour": "red"}), installed.refusal({"new.coreweave.cloud/x": "1"})),
            lambda found: "No red ones." in found[0] and not found[1],
        )
        all_log(installed, CHANGED)
        writing.settle(STEADY_SECONDS)
        installed.install()
        wait_for("the old ones", lambda: not installed.refusal({"colour": "red"}))
        all_log(installed, CHANGED, [CHANGED[-1], *CHANGED[:-1]])

    untroubled(phase)
    assert {each.name for each in installed.kubelet.ready()} == before
    for each in installed.kubelet.ready():
        assert ["no-red"] in [event["added"] for event in events(each, "policies loaded")]


def test_a_roll_out(installed: Release, writing: Load) -> None:
    """When all Pods are replaced by others, no write notices."""
    before = {each.name for each in installed.kubelet.ready()}
    with writing.phase("roll-out") as phase:
        installed.values = {**installed.values, "podAnnotations": {"example.org/generation": "2"}}  # it stays so
        installed.install()
        wait_for("the old Pods to end", lambda: not before & {each.name for each in installed.kubelet.named()})
        writing.settle(STEADY_SECONDS)

    untroubled(phase)
    assert not before & {each.name for each in installed.wait()}


def authority(installed: Release) -> Certificate:
    """Return the CA that the replicas share. Raises NotYet while there is none that can be read."""
    try:
        return load_certificates(installed.secret()["ca.crt"])[0]
    except (KeyError, PemError) as error:
        raise NotYet(str(error)) from None


def bundle(installed: Release) -> set[Certificate]:
    """Return the CAs that the API server is told of."""
    return set(Bundle.from_pem(installed.secret()["ca-bundle.crt"]))


def scale(audited: ControlPlane, number: int) -> None:
    """Have so many Pods of manage."""
    where = (f"deployment/{MANAGE}", f"--replicas={number}", "-n", NAMESPACE)
    audited.kubectl("scale", *where, user="admin", check=True)


def spoil(audited: ControlPlane, fault: str) -> Certificate | None:
    """Do something to the Secret that nobody should do; return the CA that it holds then, if it is another's."""
    where = (f"secret/{NAME}-ca", "-n", NAMESPACE)
    if fault == "deleted":
        audited.kubectl("delete", *where, user="admin", check=True)
        return None
    other = new_authority(datetime.now(UTC), name="somebody else's")
    contents = {"ca.crt": other.cert_pem, "ca.key": other.key_pem} if fault == "foreign" else {"ca.crt": b"-----BEGIN"}
    data = {key: base64.b64encode(content).decode() for key, content in contents.items()}
    audited.kubectl("patch", *where, "--type=merge", "-p", json.dumps({"data": data}), user="admin", check=True)
    return other.certificate if fault == "foreign" else None


def all_log(installed: Release, *changed: list[str]) -> None:
    """Wait until each replica has loaded just these changes of the configuration, one after the other."""
    wait_until(
        "the replicas to load the configuration",
        lambda: [[event["changed"] for event in events(each, "configuration loaded")] for each in installed.wait()],
        lambda found: found == [list(changed)] * 3,
    )


def aged(installed: Release) -> tuple[Certificate, float]:
    """Have all replicas show leaves of a CA whose time comes soon; return it, and the seconds that it was given.

    Where its time comes before all show them, as on a busy machine, another one is given more.
    """
    for seconds in AGES_SECONDS:
        ageing = installed.age(seconds)
        wait_for("the leaves of a CA, or its end", partial(shown_or_over, installed, ageing))
        if authority(installed) == ageing:
            return ageing, seconds
    pytest.fail(f"not all replicas show a CA within {seconds} s")


def shown_or_over(installed: Release, ageing: Certificate) -> bool:
    """Whether all replicas show a certificate by a CA, or it has been replaced."""
    return authority(installed) != ageing or shown(installed, ageing)


def all_show(installed: Release, by: Certificate) -> None:
    """Wait until all replicas show a certificate by a CA."""
    wait_for("the leaves of a CA", lambda: shown(installed, by))


def shown(installed: Release, by: Certificate) -> bool:
    """Whether all replicas show a certificate by a CA. Raises NotYet where one cannot be asked."""
    pairs = [(each.address, each.ports[0]) for each in installed.kubelet.ready()]
    try:
        leaves = [load_certificates(ssl.get_server_certificate(pair).encode())[0] for pair in pairs]
    except OSError as error:  # one that has just been told to end
        raise NotYet(str(error)) from error
    return len(leaves) == 3 and all(issued_by(leaf, by) for leaf in leaves)
