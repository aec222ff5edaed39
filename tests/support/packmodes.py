"""For tests that were written for no packs: packs that are off, for this process and for others."""

from __future__ import annotations

from typing import Final

import pytest

from webhook.configuration.rulesettings import PacksSettings

OFF: Final = dict.fromkeys(PacksSettings.names(), "off")
"""The section `packs` of a configuration without packs."""


@pytest.fixture
def no_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No packs in this process, whatever the settings say."""
    monkeypatch.setattr(PacksSettings, "by_name", {})
