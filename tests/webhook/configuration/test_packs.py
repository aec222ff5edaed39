"""The section `packs`: how it is written, and what it may name."""

from pathlib import Path

from webhook.configuration.rulesettings import PackSettings, PacksSettings
from webhook.configuration.settings import Settings
from webhook.configuration.settingsfile import read
from webhook.sources import packfiles


def test_the_packs_are_those_that_are_shipped() -> None:
    """Each folder with policies is a pack of the settings."""
    folders = {path.parents[1].name for path in packfiles.PACKS.glob("*/*/policy.yaml")}

    assert set(PacksSettings.names()) == folders


def test_a_mode_stands_for_its_pack(tmp_path: Path) -> None:
    """A pack is its mode, off with and without quotes, or a map; numbers and lists become a ConfigMap's texts."""
    file = tmp_path / "cks.yaml"
    file.write_text(
        """packs:
          sunk: off
          scheduling-safety: "audit"
          interruptable-qos:
            policies: {interruptable-candidate: off, interruptable-drain: enforce}
            parameters: {maxTerminationGracePeriodSeconds: 60, databaseImages: [postgres, redis]}
        """,
        encoding="utf-8",
    )

    assert read(file).packs == PacksSettings(
        sunk=PackSettings(mode="off"),
        **{
            "scheduling-safety": PackSettings(mode="audit"),
            "interruptable-qos": PackSettings(
                policies={"interruptable-candidate": "off", "interruptable-drain": "enforce"},
                parameters={"maxTerminationGracePeriodSeconds": "60", "databaseImages": "postgres redis"},
            ),
        },
    )


def test_packs_are_on_unless_all_are_off() -> None:
    """By default all warn. A policy that is on puts its pack on."""
    every = dict.fromkeys(PacksSettings.names(), "off")
    one = {**every, "sunk": {"mode": "off", "policies": {"lock-toleration": "warn"}}}

    packs = [Settings.model_validate({"packs": given}).packs for given in ({}, every, one)]
    assert [pack.is_on for pack in packs] == [True, False, True]
    assert [pack.mode for pack in packs[0].by_name.values()] == ["warn"] * len(every)
