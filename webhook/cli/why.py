"""`cks-admission why`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import click

from policies.engine.violation import Section, likest
from policies.kubernetes.name import dns_subdomain
from policies.kubernetes.spelling import closest
from policies.lint.finding import BY_NAME, CODES
from webhook import refused
from webhook.cli import options
from webhook.cli.output import InputError, say, style, write

_LINK = re.compile(r"\[([^\]]*)\]\((?:[^()]|\([^()]*\))*\)")
_ALL = "cks-admission why lists all codes"
_NAMED = re.compile(r"AdmissionPolicy '([a-z0-9.-]+)' with binding")


@click.command("why")
@click.argument("words", nargs=-1, metavar="CODE|MESSAGE|-")
@options.output
def command(words: tuple[str, ...], output: str) -> None:
    """Explain a refusal or a warning: what it means, and what to do. Needs no cluster.

    Give a code, such as labels/reserved-label, the name of a rule or of a shipped policy, the message itself, or - to
    read the message from standard input. Without any, all codes are listed.

    \b
    Examples:
      cks-admission why labels/reserved-label
      cks-admission why lock-toleration
      cks-admission why 'The placement cannot be used.'
      kubectl apply -f train.yaml 2>&1 | cks-admission why -
    """
    known = refused.sections()
    asked = sys.stdin.read() if words == ("-",) else " ".join(words)
    chosen = _of(asked.strip(), known) if words else known
    if output != "text":
        write([{"code": one.name, "messages": list(one.messages), "text": one.text} for one in chosen], output)
    elif words:
        say(*"\n\n".join(map(_text, chosen)).split("\n"))
    else:
        width = max(len(section.name) for section in known)
        for section in known:
            first = section.messages[0] if section.messages else ""
            say(f"{section.name.ljust(width)}  {first}".rstrip())


def _of(asked: str, known: Sequence[Section]) -> Sequence[Section]:
    """The sections about what was asked: by code, by rule, or by the message. Raises InputError."""
    by_name = [one for one in known if asked in (one.name, one.code, one.page)]
    if exact := [one for one in by_name if asked in (one.name, one.page)] or by_name:
        return exact
    # A policy's own words may be anybody's: its name says whose they are.
    named = [one for name in _NAMED.findall(asked) for one in known if (one.page, one.code) == ("packs", name)]
    best = named[0] if named else likest(known, asked)
    if best is not None:
        return [best]
    if (code := BY_NAME.get(asked, asked)) in CODES:
        name, text = CODES[code]
        raise InputError(f"{code} {name} is a finding of lint, see docs/reference/lint.md: {text}")
    hint = f"{_ALL}; paste the whole message"
    if near := closest(asked, [part for one in known for part in (one.name, one.code, one.page)]):
        hint = f"did you mean {near}?"
    elif asked and not dns_subdomain(asked):
        kinds = "validatingadmissionpolicies,mutatingadmissionpolicies"
        hint = f"if it is a policy of your cluster, kubectl get {kinds} {asked} -o yaml shows it; {_ALL}"
    raise InputError(f"nothing is known about {' '.join(asked.split())[:80]!r}: {hint}")


def _text(section: Section) -> str:
    """A section as people read it on a terminal: messages first, links without their targets."""
    _, _, body = section.text.partition("```\n") if section.messages else ("", "", section.text)
    quoted = "\n".join(f"  {message}" for message in section.messages)
    words = _LINK.sub(r"\1", body).replace("**What to do.**", style("What to do.", bold=True))
    return f"{style(section.name, bold=True)}\n{quoted}\n\n{words.strip()}"
