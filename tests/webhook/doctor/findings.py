"""What tests of the checks share."""

from __future__ import annotations

from typing import Any

from webhook.configuration.settings import Settings
from webhook.doctor.observation import Unread

FORBIDDEN = Unread("the API server refused it", "list things")


def settings(**sections: Any) -> Settings:
    """The configuration with these sections."""
    return Settings.model_validate(sections)
