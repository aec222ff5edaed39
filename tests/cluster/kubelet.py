"""A kubelet for the service's Pods: it runs them as processes, with exactly what their manifests say.

kwok plays the kubelets of all other Pods. Differences from a real kubelet: there are no images, so the entry point is
the installed command, or that of COMMANDS for an image; there are no Pod networks, so that Pods listen on addresses of
the loopback device.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cluster.apicalls import Caller
from cluster.components import OWN_PODS
from cluster.polling import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

    Get = Callable[[str], Manifest]
    Token = Callable[[str, int], str]

COMMAND = Path(sys.executable).parent / "cks-admission"
COMMANDS = {"next": [sys.executable, str(Path(__file__).with_name("nextversion.py"))]}
"""The commands of images that are not the installed version's, by tag."""

_PAUSE_SECONDS = 0.2
_EXECUTE_SECONDS = 90.0
_REFRESH_SECONDS = 1.0
_RESTART_SECONDS = 1.0  # after the last start: a process that cannot live is not started again and again at once


@dataclass
class Running:
    """A Pod that runs here, with an address of its own."""

    pod: Manifest
    root: Path
    address: str
    process: subprocess.Popen[bytes]
    restarts: int = 0
    status: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    ending: float = 0.0

    @property
    def name(self) -> str:
        """The Pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def component(self) -> str:
        """What it is: webhook for a replica, or manage, or unregister."""
        return str(self.pod["metadata"]["labels"]["app.kubernetes.io/component"])

    @property
    def ports(self) -> tuple[int, int]:
        """The ports for admission, 0 where there is none, and for health."""
        (container,) = self.pod["spec"]["containers"]
        found = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        return found.get("webhook", 0), found.get("health", 0)

    @property
    def log(self) -> Path:
        """Where the process logs to."""
        return self.root / "log.jsonl"


class Kubelet:
    """Runs the Pods of one Namespace that have the service's label, while the block lasts.

    addresses: those of Pods, of which each takes one that no other has.
    """

    def __init__(self, control_plane: ControlPlane, namespace: str, addresses: Sequence[str]) -> None:
        """Prepare it; nothing runs yet."""
        self.running: dict[str, Running] = {}
        self.ended: list[tuple[str, int, str]] = []
        """Name, exit code and log of every process that ended."""
        self._control_plane = control_plane
        self._addresses = tuple(addresses)
        self._path = f"/api/v1/namespaces/{namespace}"
        self._directory = control_plane.directory / os.urandom(2).hex()
        self._caller = Caller(control_plane)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")
        self._tokens: dict[tuple[str, str], str] = {}
        self._looks = 0
        self._mounted: dict[str, Manifest] = {}
        """What was read for the volumes of Pods in this look."""
        self._refreshed = 0.0
        self._is_due = False
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs. Raises what made the kubelet itself fail."""
        self._stopping.set()
        self._thread.join()
        for each in self.running.values():
            each.process.kill()
            each.process.wait()
        self._caller.close()
        if self._failure is not None:
            raise self._failure

    def named(self, part: str = "") -> list[Running]:
        """Return those that run and have a text in their names, the oldest first."""
        running = list(self.running.values())  # the kubelet goes on meanwhile
        found = [each for each in running if part in each.name and each.process.poll() is None]
        return sorted(found, key=lambda each: str(each.pod["metadata"]["creationTimestamp"]))

    def ready(self, component: str = "webhook") -> list[Running]:
        """Return those of a component that are ready and are not just ending, by a look that begins now.

        Of those that were seen before, one may have been deleted since.
        """
        before = self._looks

        def looked() -> bool:
            if self._failure is not None:
                raise self._failure
            return self._looks >= before + 2  # the first may have been under way

        wait_for("the kubelet to look", looked)
        ready = [each for each in self.named() if each.status.get("ready") and not each.ending]
        return [each for each in ready if each.component == component]

    def environment(self, pod: Manifest, root: Path) -> dict[str, str]:
        """Return the environment of a Pod's container, its temporary files below `root`."""
        (container,) = pod["spec"]["containers"]
        host, _, port = self._control_plane.server.removeprefix("https://").partition(":")
        found = {"PATH": os.environ["PATH"], "TMPDIR": str(root / "tmp"), "HOME": "/nonexistent"}
        found |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOSTNAME": pod["metadata"]["name"]}
        for each in container.get("env", []):
            reference = each.get("valueFrom", {}).get("fieldRef")
            found[each["name"]] = field_of(pod, reference["fieldPath"]) if reference else each["value"]
        return found

    def execute(self, each: Running, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command with arguments in a Pod, as `kubectl exec` would."""
        (container,) = each.pod["spec"]["containers"]
        return subprocess.run(
            [str(COMMAND), *arguments],
            cwd=each.root / container["workingDir"].lstrip("/"),
            env=self.environment(each.pod, each.root),
            capture_output=True,
            text=True,
            timeout=_EXECUTE_SECONDS,
            check=False,
        )

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_PAUSE_SECONDS):
                self._look()
        except BaseException as error:  # noqa: BLE001 - raised again where the block ends
            self._failure = error

    def _look(self) -> None:
        answer = self._caller.send("GET", f"{self._path}/pods?labelSelector={OWN_PODS}")
        if answer.code != HTTPStatus.OK:
            return  # an API server that is busy is asked again
        pods = {pod["metadata"]["uid"]: pod for pod in answer.body["items"] if pod["spec"].get("nodeName")}
        self._mounted.clear()
        self._is_due = time.monotonic() > self._refreshed + _REFRESH_SECONDS
        if self._is_due:
            self._refreshed = time.monotonic()
        for uid, pod in pods.items():
            if uid not in self.running and "deletionTimestamp" not in pod["metadata"] and _is_waiting(pod):
                self._start(uid, pod)
        for uid, each in list(self.running.items()):
            if uid not in pods:
                each.process.kill()  # deleted by force
                self._end(uid, each)
            elif "deletionTimestamp" in pods[uid]["metadata"]:
                self._terminate(uid, each, pods[uid])
            else:
                self._keep(uid, each)
        self._looks += 1

    def _start(self, uid: str, pod: Manifest) -> None:
        root = self._directory / uid[:8]  # short, for the path of a Unix socket has 108 bytes at most
        root.mkdir(parents=True, exist_ok=True)
        taken = {each.address for each in self.running.values()}
        address = next((free for free in self._addresses if free not in taken), None)
        if address is None:
            return  # until one that is ending has gone
        try:
            self._write(root, pod)
        except MissingVolumeError:
            return  # the Pod stays as it is until its volumes can be mounted, and so it does in a cluster
        self.running[uid] = Running(pod, root, address, self._process(root, pod, address))

    def _process(self, root: Path, pod: Manifest, address: str) -> subprocess.Popen[bytes]:
        (container,) = pod["spec"]["containers"]
        tag = str(container["image"]).rpartition(":")[2]
        arguments = [*COMMANDS.get(tag, [str(COMMAND)]), *container.get("args", [])]
        if "serve" in arguments:
            arguments += ["--host", address]
        if container.get("ports"):
            arguments += ["--health-host", address]
        with (root / "log.jsonl").open("ab") as log:
            return subprocess.Popen(
                arguments,
                cwd=root / container.get("workingDir", "/").lstrip("/"),
                env=self.environment(pod, root),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _write(self, root: Path, pod: Manifest) -> None:
        (container,) = pod["spec"]["containers"]
        write(root, container, volumes(pod, self._get, lambda *what: self._token(pod, *what)))

    def _keep(self, uid: str, each: Running) -> None:
        """Start a Pod's process again if it ended, bring its files up to date once a second, and report on it.

        One that is ready is asked once a second whether it still is.
        """
        code = each.process.poll()
        if code is not None and time.monotonic() < each.began + _RESTART_SECONDS:
            return
        if code is not None:
            self.ended.append((each.name, code, each.log.read_text(encoding="utf-8")))
            if each.pod["spec"]["restartPolicy"] != "Always":
                self._report(each, {"phase": "Succeeded" if code == 0 else "Failed", "ready": False})
                del self.running[uid]
                return
            each.restarts += 1
            each.began = time.monotonic()
            each.process = self._process(each.root, each.pod, each.address)
        if self._is_due:
            with suppress(MissingVolumeError):  # what it has stays
                self._write(each.root, each.pod)
        stays = code is None and not self._is_due and each.status.get("ready")
        ready = True if stays else self._is_ready(each)
        self._report(each, {"phase": "Running", "ready": ready, "restarts": each.restarts})

    def _is_ready(self, each: Running) -> bool:
        (container,) = each.pod["spec"]["containers"]
        probe = container.get("readinessProbe")
        if probe is None:
            return True
        try:
            url = f"http://{each.address}:{each.ports[1]}{probe['httpGet']['path']}"
            with urllib.request.urlopen(url, timeout=probe.get("timeoutSeconds", 1)) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except TimeoutError:
            return bool(each.status.get("ready"))  # as a kubelet, which waits for more than one late answer
        except OSError:
            return False

    def _terminate(self, uid: str, each: Running, pod: Manifest) -> None:
        """End a Pod as a kubelet does: SIGTERM, the grace period, SIGKILL, and then it is gone."""
        if not each.ending:
            each.process.send_signal(signal.SIGTERM)
            each.ending = time.monotonic() + pod["metadata"].get("deletionGracePeriodSeconds", 30)
        if each.process.poll() is None and time.monotonic() < each.ending:
            return
        each.process.kill()
        self._end(uid, each)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._caller.send("DELETE", f"{self._path}/pods/{each.name}", body)

    def _end(self, uid: str, each: Running) -> None:
        self.ended.append((each.name, each.process.wait(), each.log.read_text(encoding="utf-8")))
        del self.running[uid]

    def _report(self, each: Running, status: dict[str, Any]) -> None:
        if status == each.status:
            return
        (container,) = each.pod["spec"]["containers"]
        ready = "True" if status["ready"] else "False"
        terminated = status["phase"] in ("Succeeded", "Failed")
        state = (
            {"terminated": {"exitCode": 0 if status["phase"] == "Succeeded" else 1}} if terminated else {"running": {}}
        )
        body = {
            "status": {
                "phase": status["phase"],
                "podIP": each.address,
                "podIPs": [{"ip": each.address}],
                "conditions": [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")],
                "containerStatuses": [
                    {
                        "name": container["name"],
                        "image": container["image"],
                        "imageID": "",
                        "ready": status["ready"],
                        "started": not terminated,
                        "restartCount": each.restarts,
                        "state": state,
                    }
                ],
            }
        }
        path = f"{self._path}/pods/{each.name}/status"
        answer = self._caller.send("PATCH", path, body, content_type="application/strategic-merge-patch+json")
        if answer.code == HTTPStatus.OK:  # or it is reported again
            each.status = status

    def _get(self, what: str) -> Manifest:
        if what not in self._mounted:
            answer = self._caller.send("GET", f"{self._path}/{what}")
            if answer.code != HTTPStatus.OK:
                raise MissingVolumeError(f"{what}: {answer.body}")
            self._mounted[what] = answer.body
        return self._mounted[what]

    def _token(self, pod: Manifest, account: str, seconds: int) -> str:
        key = str(pod["metadata"]["uid"]), account
        if key not in self._tokens:
            body = {"spec": {"expirationSeconds": seconds}}
            answer = self._caller.send("POST", f"{self._path}/serviceaccounts/{account}/token", body)
            if answer.code != HTTPStatus.CREATED:
                raise MissingVolumeError(f"no token for {account}: {answer.body}")
            self._tokens[key] = str(answer.body["status"]["token"])
        return self._tokens[key]


def _is_waiting(pod: Manifest) -> bool:
    return bool(pod.get("status", {}).get("phase", "Pending") == "Pending")


Files = dict[str, bytes]


class MissingVolumeError(Exception):
    """A volume's ConfigMap, Secret or key is not there."""


def volumes(pod: Manifest, get: Get, token: Token) -> dict[str, Files | None]:
    """Return the files of each volume that has a content; None for one that is empty at first.

    get: reads an object of the Pod's Namespace, as "configmaps/NAME". token: a token for a service account by its name
    and its life in seconds.
    """
    return {volume["name"]: _content(volume, pod, get, token) for volume in pod["spec"].get("volumes", [])}


def write(root: Path, container: Mapping[str, Any], contents: Mapping[str, Files | None]) -> None:
    """Write a container's volumes below a folder that stands for its root; readers see a volume change at once."""
    for mount in container.get("volumeMounts", []):
        target = root / mount["mountPath"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        files = contents[mount["name"]]
        if files is not None:
            _swap(target, files)


def _content(volume: Mapping[str, Any], pod: Manifest, get: Get, token: Token) -> Files | None:
    if "emptyDir" in volume:
        return None
    if "projected" in volume:
        found: Files = {}
        for source in volume["projected"]["sources"]:
            found |= dict(_source(source, pod, get, token))
        return found
    if "secret" in volume:
        chosen = {**volume["secret"], "name": volume["secret"]["secretName"]}
        try:
            return dict(_source({"secret": chosen}, pod, get, token))
        except MissingVolumeError:
            if not chosen.get("optional"):
                raise
            return {}
    return dict(_source({"configMap": volume["configMap"]}, pod, get, token))


def _source(source: Mapping[str, Any], pod: Manifest, get: Get, token: Token) -> Iterator[tuple[str, bytes]]:
    ((kind, what),) = source.items()
    match kind:
        case "configMap":
            data = get(f"configmaps/{what['name']}").get("data", {})
            yield from _chosen(what, {key: text.encode() for key, text in data.items()})
        case "secret":
            data = get(f"secrets/{what['name']}").get("data", {})
            yield from _chosen(what, {key: base64.b64decode(text) for key, text in data.items()})
        case "serviceAccountToken":
            yield what["path"], token(pod["spec"]["serviceAccountName"], what["expirationSeconds"]).encode()
        case "downwardAPI":
            for item in what["items"]:
                yield item["path"], field_of(pod, item["fieldRef"]["fieldPath"]).encode()
        case _:
            raise ValueError(f"no kubelet here knows a volume source {kind}")


def _chosen(what: Mapping[str, Any], data: Files) -> Iterator[tuple[str, bytes]]:
    items = what.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        if item["key"] in data:
            yield item["path"], data[item["key"]]
        elif not what.get("optional"):
            raise MissingVolumeError(f"{what['name']} has no {item['key']}")


def field_of(pod: Manifest, path: str) -> str:
    """Return a field of a Pod as the downward API has it, such as metadata.name."""
    found: Any = pod
    for step in path.split("."):
        found = found[step]
    return str(found)


def _swap(target: Path, files: Files) -> None:
    """Replace all files of a volume at once: names are links into a folder behind one link, which is exchanged."""
    current = target / "..data"
    known = current.resolve()
    if current.exists() and {path.name: path.read_bytes() for path in known.iterdir()} == files:
        return
    version = target / f"..{secrets.token_hex(4)}"
    version.mkdir()
    for name, content in files.items():
        (version / name).write_bytes(content)
    new = target / "..data_tmp"
    new.symlink_to(version.name)
    os.replace(new, current)  # noqa: PTH105 - of links, which Path.replace would do as well, and say less clearly
    for name in files:
        if not (target / name).is_symlink():
            (target / name).symlink_to(f"..data/{name}")
    for path in list(target.iterdir()):
        if path.is_symlink() and not path.name.startswith("..") and path.name not in files:
            path.unlink()
    if known != current:
        shutil.rmtree(known, ignore_errors=True)
