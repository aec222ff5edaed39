"""Options that several verbs share."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from policies.engine.request import JsonObject
from policies.engine.rule import RuleSet
from policies.kubernetes.release import NEWEST, RELEASES, Release, named
from webhook.cli.output import InputError, ToolError, bounded, reading, say
from webhook.configuration import rules
from webhook.configuration.rulesettings import PackSettings
from webhook.configuration.settings import ClusterSettings, Settings, SettingsError
from webhook.configuration.settingsfile import override, read
from webhook.files import manifest
from webhook.files.yamlfile import FileError

if TYPE_CHECKING:
    from policies.admissionpolicy.evaluation.compilation import CompiledPolicy
    from policies.admissionpolicy.model import Policy
    from webhook.cluster.api.client import Connection
    from webhook.sources.policyfiles import PolicyFiles

T = TypeVar("T")

config = click.option(
    "--config",
    "config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file. Without it, every setting has its default.",
)


def output_of(*forms: str, help: str = "Output format.") -> Callable[[Any], Any]:
    """The option that says how results are printed. forms: the first one is the default."""
    made: Callable[[Any], Any] = click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True, help=help
    )
    return made


output = output_of("text", "json", "yaml")
CRD = "CustomResourceDefinition"
PATH = click.Path(allow_dash=True)
"""The type of arguments that name files or folders, for shells that complete them. Whether they exist is said later."""


def objects(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and the option that name files with objects. The command gets both as `paths`."""

    @wraps(command)
    def made(*, paths: tuple[str, ...], files: tuple[str, ...], **others: Any) -> Any:
        return command(paths=(*paths, *files), **others)

    option = click.option(
        "-f", "--filename", "files", multiple=True, metavar="FILE|DIR|-", type=PATH,
        help="The same as an argument; repeatable.",
    )  # fmt: skip
    named: Callable[..., Any] = click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...", type=PATH)(option(made))
    return named


def findings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how findings are printed."""
    form = output_of("text", "json", "yaml", "junit", "sarif", "github", "gitlab")
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print only findings, and no summary.")
    strict = click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
    made: Callable[..., Any] = form(quiet(strict(command)))
    return made


watch = click.option("--watch", is_flag=True, help="Run again whenever a file changes, until Ctrl-C.")
policies = click.option(
    "--policies",
    "policies__directories",
    multiple=True,
    metavar="FILE|DIR",
    type=PATH,
    help="Policies and exceptions to use besides the built-in rules, instead of packs that the configuration does not "
    "name; repeatable.",
)
kubernetes = click.option(
    "--kubernetes",
    "policies__kubernetes",
    type=click.Choice([release.name for release in RELEASES]),
    help=f"Release of Kubernetes that judges policies.  [default: {NEWEST.name}]",
)
namespace_labels = click.option(
    "--namespace-labels", multiple=True, metavar="KEY=VALUE", help="Label of the objects' Namespaces; repeatable."
)
nodes = click.option(
    "--nodes",
    multiple=True,
    metavar="FILE|DIR|-",
    type=PATH,
    help="Nodes and Pods, as kubectl get nodes,pods -A -o json prints them; repeatable.",
)


def schemas(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say by which schemas objects are judged."""
    mode = click.option(
        "--schema",
        type=click.Choice(["strict", "off"]),
        default="strict",
        show_default=True,
        help="Whether objects are judged by the schemas of their kinds, as the API server does.",
    )
    crds = click.option(
        "--crds",
        multiple=True,
        metavar="FILE|DIR",
        help="CustomResourceDefinitions for custom resources, besides those among the objects; repeatable.",
    )
    cluster = click.option(
        "--kubeconfig", default="", metavar="FILE", help="Cluster whose CustomResourceDefinitions are used."
    )
    return mode(crds(cluster(command)))


def release(given: str | None) -> Release:
    """The release given with `kubernetes`, for verbs without a configuration."""
    return named(given) if given else NEWEST


def labels(pairs: Iterable[str]) -> dict[str, str]:
    """The labels given with `namespace_labels`. Raises InputError."""
    parsed = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--namespace-labels {pair}: write KEY=VALUE")
        parsed[key] = value
    return parsed


def refuse_one_stdin(files: Sequence[str], nodes: Sequence[str]) -> None:
    """Raises InputError if objects and Nodes are both to be read from standard input."""
    if "-" in files and "-" in nodes:
        raise InputError("-f - and --nodes - both read standard input; give one of them as a file")


def stdin(paths: Sequence[str]) -> bytes:
    """The text of standard input where one of the paths is `-`, else nothing."""
    return sys.stdin.buffer.read() if "-" in paths else b""


def setting(name: str, key: str, **attributes: Any) -> Callable[[Any], Any]:
    """An option that sets one key of the configuration, such as listen.port."""
    return click.option(name, key.replace(".", "__"), default=None, **attributes)


kubeconfig = setting("--kubeconfig", "cluster.kubeconfig", help="Kubeconfig of the cluster.")
in_cluster = setting("--in-cluster", "cluster.inCluster", is_flag=True, help="Use the Pod's service account.")


def apart(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a process that works on the cluster and answers no reviews."""
    host = setting("--health-host", "health.host", help="Address of the port for probes and metrics.")
    port = setting("--health-port", "health.port", type=int, help="Port of /livez, /readyz and /metrics.")
    made: Callable[..., Any] = config(host(port(kubeconfig(in_cluster(command)))))
    return made


def settings(config: Path | None, options: dict[str, Any], *, packs: bool = True, pipes: bool = True) -> Settings:
    """The configuration file's settings, changed by the options made with `setting` that were given.

    packs: whether packs are on that nobody names, unless `--policies` names others. pipes: whether the file may be a
    FIFO, which nobody can read twice.
    """
    with reading(SettingsError):
        return current(config, options, packs=packs, pipes=pipes)


def current(config: Path | None, options: dict[str, Any], *, packs: bool = True, pipes: bool = False) -> Settings:
    """As `settings`, for callers that can continue with the previous settings. Raises SettingsError."""
    base = read(config, pipes=pipes) if config else Settings()
    given = [(key.replace("__", "."), value) for key, value in options.items() if value not in (None, ())]
    if not packs or any(key == "policies.directories" for key, _ in given):
        named = {name: getattr(base.packs, name) for name in base.packs.model_fields_set}
        off = dict.fromkeys(type(base.packs).model_fields, PackSettings(mode="off"))
        base = base.model_copy(update={"packs": base.packs.model_copy(update=off | named)})
    return override(base, given)


def ruleset(
    settings: Settings, today: date, *, drafts: bool = False, clustered: bool = True
) -> tuple[PolicyFiles | None, RuleSet]:
    """The rules for the settings, and the policy files if there are any; warnings about them go to stderr.

    drafts: whether policies without a binding deny; else they are errors. clustered: whether there is a placer.

    Raises InputError, SettingsError and OSError.
    """
    files, made = policy_files(settings, today, drafts=drafts), rules.NO_POLICIES
    if files is not None or settings.packs.is_on:
        from policies.admissionpolicy.evaluation.compilation import compile_policy  # noqa: PLC0415 - as below
        from webhook.sources.policyset import EMPTY  # noqa: PLC0415 - nothing else here needs the CEL engine

        judged_as = settings.policies.release or NEWEST

        def compiled(policy: Policy) -> CompiledPolicy:
            with bounded(f"{policy.origin.file}:{policy.origin.line}"):
                return compile_policy(policy, judged_as)

        made = rules.of_policies(settings, files or EMPTY.files._replace(release=judged_as), compiled)
        for name in made.replaced:
            say(f"packs: the shipped {name} is not used: another policy has this name", err=True)
    if unknown := rules.unknown_names(settings, made):
        raise SettingsError("\n".join(unknown))
    return files, rules.build(settings, (), made, clustered=clustered)


def tell_passed_over(paths: Iterable[str]) -> None:
    """Say on stderr what in directories is passed over because it is no file. Raises OSError."""
    say(*(line for path in paths for line in manifest.passed_over(path)), err=True)


def policy_files(settings: Settings, today: date, *, drafts: bool) -> PolicyFiles | None:
    """The policy files, None without paths; warnings about them go to stderr. Raises InputError and OSError."""
    paths, judged_as = settings.policies.directories, settings.policies.release or NEWEST
    if not paths:
        return None
    from webhook.sources import policyfiles  # noqa: PLC0415 - nothing else here needs the CEL engine

    tell_passed_over(paths)
    with reading(FileError):
        files = policyfiles.read(policyfiles.texts(paths), today, drafts=drafts, release=judged_as, within=bounded)
    if not (files.loaded.policies or files.loaded.exceptions):
        kinds = "ValidatingAdmissionPolicy, MutatingAdmissionPolicy or PolicyException"
        raise InputError(f"{', '.join(paths)}: no {kinds} found")
    say(*map(str, files.loaded.warnings), err=True)
    return files


def definitions(paths: Iterable[str], kubeconfig: str) -> Iterator[JsonObject]:
    """The CustomResourceDefinitions of files and folders, and those of a cluster, if one is given by `schemas`.

    A path without any is an error, as a warning about each object would not say why. Raises InputError and ToolError.
    """
    for path in paths:
        with reading(FileError):
            own = list(definitions_among(written.object for written in manifest.read([path])))
        if not own:
            raise InputError(f"--crds {path}: no {CRD} found")
        yield from own
    if kubeconfig:
        from webhook.cluster.api.call import DEFINITIONS, several  # noqa: PLC0415 - most runs need no cluster

        yield from of_cluster(ClusterSettings(), lambda api: several(api, DEFINITIONS), kubeconfig)


def definitions_among(values: Iterable[Any]) -> Iterator[JsonObject]:
    """The CustomResourceDefinitions among decoded documents."""
    return (value for value in values if isinstance(value, dict) and value.get("kind") == CRD)


def of_cluster(where: ClusterSettings, work: Callable[[Connection], Awaitable[T]], kubeconfig: str = "") -> T:
    """What some work finds in a cluster. kubeconfig: instead of what the settings say. Raises ToolError."""
    from webhook.cluster.api.client import connect  # noqa: PLC0415 - most runs need no cluster
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - as above

    async def run() -> T:
        inside = where.in_cluster and not kubeconfig
        async with await connect(kubeconfig or where.kubeconfig or None, inside, where.service_account) as api:
            return await work(api)

    try:
        return asyncio.run(run())
    except ClusterError as error:
        raise ToolError(str(error)) from None
