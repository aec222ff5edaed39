"""The real process, whose configuration changes while it serves."""

from pathlib import Path

import yaml
from builders import pod

from .processes import Service
from .reviews import RESERVED, answer_of, body
from .wire import connected


async def _allowed(service: Service) -> bool:
    """Whether a Pod with a reserved label is let in."""
    async with connected(await service.port(), service.context()) as wire:
        return bool(answer_of((await wire.call(body(pod(labels=RESERVED)))).body)["allowed"])


async def test_a_configuration_that_changes(tmp_path: Path) -> None:
    """A new content is served without a restart, a mistake changes nothing and is told, and the next one is served."""
    file = tmp_path / "cks.yaml"
    async with Service(tmp_path) as service:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
        found = [await _allowed(service)]

        file.write_text(yaml.safe_dump({**settings, "labels": {"action": "audit"}}), encoding="utf-8")
        loaded = await service.event("configuration loaded")
        found.append(await _allowed(service))

        file.write_text("labels: {action: nay}", encoding="utf-8")
        refused = await service.event("configuration refused")
        found.append(await _allowed(service))
        ready = await service.ask("/readyz")
        measured = (await service.ask("/metrics")).body

        file.write_text(yaml.safe_dump({**settings, "listen": {"port": 1}}), encoding="utf-8")
        await service.event("configuration loaded", 2)
        waiting = await service.event("restart needed")
        found.append(await _allowed(service))

    assert found == [False, True, True, False]
    assert loaded["changed"] == ["labels.action"]
    reason = f"{file}:1: labels.action: input should be 'deny', 'warn', 'audit' or 'off', found 'nay'"
    assert refused["reason"] == reason
    note = f"ok\n- configuration: refused, what was loaded before stays in force:\n{reason}\n"
    assert (ready.status, ready.text) == (200, note)
    assert b"\ncks_admission_configuration_refused 1.0\n" in measured
    assert waiting["keys"] == ["listen.host", "listen.port", "listen.drainSeconds"]
