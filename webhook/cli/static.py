"""`cks-admission export static`: what kube-apiserver reads from files, out of the reach of everybody in the cluster.

Kubernetes 1.37 and later read policies and webhook configurations so (KEP-5793): those of a plugin from a directory of
its own, without parameters, webhooks by URL, names with an ending that no other object may have. A plugin has one file
here, because all that belongs together is then replaced at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Final

from certs.plan import replace_file
from policies.engine.request import JsonObject, mapping
from policies.kubernetes.release import Release
from policies.labels import RULE
from webhook.cli.exits import InputError, bounded
from webhook.cli.native import exported
from webhook.cli.output import to_yaml
from webhook.configuration.settings import Settings
from webhook.files import yamlfile
from webhook.registration.configurations import STATIC, static_policies
from webhook.sources import policyfiles

_POLICY, _WEBHOOK = "AdmissionPolicy", "AdmissionWebhook"
_PLUGINS: Final = tuple(f"{phase}{kind}" for kind in (_POLICY, _WEBHOOK) for phase in ("Validating", "Mutating"))
_VERSION: Final = "apiserver.config.k8s.io/v1"
_LONGEST_NAME: Final = 253


def policies(
    settings: Settings, files: Iterable[tuple[str, str]], release: Release, today: date
) -> tuple[list[JsonObject], list[str]]:
    """The guard and the policies of files, each with its bindings, and a line for each omission.

    Raises InputError and FileError for what an API server of that release would not start with.
    """
    if not release.reserves_static_names:
        instead = "apply what cks-admission export native prints, and let the service write the guard"
        raise InputError(f"Kubernetes {release.name} reads no policies from files, 1.37 and later do; {instead}")
    guards, notes = static_policies(settings), []
    if not guards:
        notes = [f"the guard is left out: labels.action is {settings.labels.action}, not deny"]
    policyfiles.read([("the guard", "---\n".join(map(to_yaml, guards)))], release=release, within=bounded)
    texts, more = exported(files, release)
    documents = [document.value for text in texts for document in yamlfile.load("a policy", text)]
    parametric = dict.fromkeys(one["metadata"]["name"] for one in documents if "paramKind" in mapping(one, "spec"))
    notes += [
        f"exceptions[{index}] is left out: in a file it would have no end"
        for index, one in enumerate(settings.exceptions)
        if RULE in one.rules and one.until >= today
    ]
    notes += [*more, *(f"policy {name} is left out: in files policies have no parameters" for name in parametric)]
    kept = (
        one
        for one in documents
        if one["kind"].removesuffix("Binding") in _PLUGINS
        and one["spec"].get("policyName", one["metadata"]["name"]) not in parametric
    )
    return [*guards, *kept], notes


def write_files(directory: Path, objects: Iterable[JsonObject], release: Release) -> None:
    """Write a folder with a file for each plugin, and the AdmissionConfiguration that names the folders.

    An API server may read any of them at any moment. Raises InputError for a name that is too long, and StoreError.
    """
    by_plugin: dict[str, list[str]] = {}
    for one in objects:
        plugin = one["kind"].removesuffix("Binding").replace("WebhookConfiguration", _WEBHOOK)
        by_plugin.setdefault(plugin, []).append(to_yaml(_renamed(one)))
    configured = []
    for plugin in _PLUGINS:
        folder = directory.absolute() / plugin
        file = folder / "cks-admission.yaml"
        if texts := by_plugin.get(plugin):
            folder.mkdir(parents=True, exist_ok=True)
            # Each change in the folder makes kube-apiserver compile all policies, which takes it a second.
            replace_file(file, "---\n".join(texts).encode(), 0o644, directory / f".{plugin}.new")
            kind = f"{'WebhookAdmission' if plugin.endswith(_WEBHOOK) else plugin}Configuration"
            folders = {"apiVersion": _VERSION, "kind": kind, "staticManifestsDir": str(folder)}
            if plugin == "MutatingAdmissionWebhook" and release.orders_static_webhooks:
                folders["staticOrder"] = "ByName"  # the place among other webhooks that a registered one has
            configured.append({"name": plugin, "configuration": folders})
        else:
            file.unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    whole = {"apiVersion": _VERSION, "kind": "AdmissionConfiguration", "plugins": configured}
    replace_file(directory / "admission.yaml", to_yaml(whole).encode(), 0o644)


def _renamed(one: JsonObject) -> JsonObject:
    """The object, and the policy that it binds, by the names in files. Raises InputError."""
    name = f"{one['metadata']['name']}{STATIC}"
    if len(name) > _LONGEST_NAME:
        most = _LONGEST_NAME - len(STATIC)
        raise InputError(f"{one['kind']} {name}: of a policy in a file the name has {most} characters at most")
    named = {**one, "metadata": {**one["metadata"], "name": name}}
    if bound := mapping(one, "spec").get("policyName"):
        named["spec"] = {**one["spec"], "policyName": f"{bound}{STATIC}"}
    return named
