"""What tests of the checks share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webhook.configuration.settings import Settings
from webhook.doctor.observation import Diagnosis, Unread

FORBIDDEN = Unread("the API server refused it", "list things")


def settings(**sections: Any) -> Settings:
    """The configuration with these sections."""
    return Settings.model_validate(sections)


def told(findings: Iterable[Diagnosis]) -> list[tuple[str, str, str, str]]:
    """Level, place, what was found and the remedy of each; all of one check."""
    found = list(findings)
    assert len({finding.check for finding in found}) <= 1
    return [(finding.level, finding.where, finding.found, finding.remedy) for finding in found]
