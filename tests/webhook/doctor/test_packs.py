"""What doctor says of the packs."""

from __future__ import annotations

from datetime import date

from webhook.configuration.settings import Settings
from webhook.doctor.checks import check_policies
from webhook.doctor.desired import make

_SETTINGS = Settings.model_validate(
    {"packs": {"sunk": "off", "interruptable-qos": {"mode": "enforce", "policies": {"interruptable-drain": "warn"}}}}
)


async def test_packs_are_shown_with_whose_place_others_take() -> None:
    """Each pack has its mode and those of single policies; a policy of the cluster takes the place of its namesake."""
    desired = await make(_SETTINGS, {}, {}, {"node-selector": [], "other": []}, date(2026, 3, 1))

    told = [(each.level, each.where, each.found) for each in check_policies(desired, {}, _SETTINGS)]
    assert told[1:] == [
        ("ok", "pack interruptable-qos", "enforce, interruptable-drain warn"),
        ("ok", "pack scheduling-safety", "warn"),
        ("ok", "pack sunk", "off"),
        ("ok", "shipped policy node-selector", "not used: another policy has this name"),
    ]
