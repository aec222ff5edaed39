"""The section `packs`: how it is written, and what it may name."""

from pathlib import Path

import pytest

from webhook.configuration.rulesettings import PackSettings, PacksSettings
from webhook.configuration.settings import Settings, SettingsError
from webhook.configuration.settingsfile import read
from webhook.sources import packfiles, packs


def _read(directory: Path, text: str) -> PacksSettings:
    file = directory / "cks.yaml"
    file.write_text(f"packs: {text}", encoding="utf-8")
    return read(file).packs


def test_the_packs_are_those_that_are_shipped() -> None:
    """Each folder with policies is a pack of the settings."""
    folders = {path.parents[1].name for path in packfiles.PACKS.glob("*/*/policy.yaml")}

    assert set(PacksSettings.names()) == folders


def test_a_mode_stands_for_its_pack(tmp_path: Path) -> None:
    """A pack is its mode, off with and without quotes, or a map; numbers and lists become a ConfigMap's texts."""
    text = """
      sunk: off
      scheduling-safety: "audit"
      interruptable-qos:
        policies: {interruptable-candidate: off, interruptable-drain: enforce}
        parameters: {maxTerminationGracePeriodSeconds: 60, databaseImages: [postgres, redis]}
    """
    assert _read(tmp_path, text) == PacksSettings(
        sunk=PackSettings(mode="off"),
        **{
            "scheduling-safety": PackSettings(mode="audit"),
            "interruptable-qos": PackSettings(
                policies={"interruptable-candidate": "off", "interruptable-drain": "enforce"},
                parameters={"maxTerminationGracePeriodSeconds": "60", "databaseImages": "postgres redis"},
            ),
        },
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{snk: off}", "packs.snk: unknown key; did you mean sunk?"),
        ("{sunk: deny}", "packs.sunk.mode: input should be 'enforce', 'warn', 'audit' or 'off', found 'deny'"),
        (
            "{sunk: {policies: {lock-tolerations: off}}}",
            "packs.sunk: the pack has no policy 'lock-tolerations'; did you mean lock-toleration?",
        ),
        (
            "{scheduling-safety: {parameters: {allowedReservedValue: x}}}",
            "packs.scheduling-safety: the pack has no parameter 'allowedReservedValue'; did you mean "
            + packs.OWN_RESERVATION
            + "?",
        ),
        ("{sunk: {parameters: {x: z}}}", "packs.sunk: the pack has no parameter 'x'; it has maxPrologSeconds"),
    ],
    ids=["pack", "mode", "policy", "parameter", "another-parameter"],
)
def test_mistakes_are_told_with_what_there_is(tmp_path: Path, text: str, problem: str) -> None:
    """An unknown name is told with its line and with the name that may be meant."""
    with pytest.raises(SettingsError) as error:
        _read(tmp_path, text)

    assert str(error.value) == f"{tmp_path / 'cks.yaml'}:1: {problem}"


def test_packs_are_on_unless_all_are_off() -> None:
    """By default all warn. A policy that is on puts its pack on."""
    every = dict.fromkeys(PacksSettings.names(), "off")
    one = {**every, "sunk": {"mode": "off", "policies": {"lock-toleration": "warn"}}}

    packs = [Settings.model_validate({"packs": given}).packs for given in ({}, every, one)]
    assert [pack.is_on for pack in packs] == [True, False, True]
    assert [pack.mode for pack in packs[0].by_name.values()] == ["warn"] * len(every)
