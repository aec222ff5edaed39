"""The real process with policies that take seconds: nobody else waits for them."""

import asyncio
import json
import time
from itertools import cycle
from pathlib import Path

from support.builders import Json, pod
from support.patience import PATIENCE
from support.policies.policydocuments import policy
from support.service.processes import Service
from support.service.reviews import RESERVED, answer_of, body

_CONFIG_MAPS = '{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}'
# The first kind stays below the cost limit, the second exceeds it.
_DEAR = "object.data.all(a, object.data.all(b, a <= b || a > b))"
_DEARER = "object.data.all(a, object.data.all(b, object.data.all(c, a <= b || b <= c || c < a)))"
_OVER = "operation cancelled: actual cost limit exceeded"
# In the event loop each of three slow reviews would keep the others waiting for a third of the time.
_PART = 5
# The first is too short for all policies on a fast machine, the last is long enough to begin with one on a slow one.
_TIMES = (0.3, 0.6, 1.2)


def _policies(directory: Path, expression: str) -> str:
    texts = (policy(f"dear-{number}", expression, rule=_CONFIG_MAPS) for number in range(8))
    (directory / "policies.yaml").write_text("".join(texts), encoding="utf-8")
    return str(directory / "policies.yaml")


def _config_map(keys: int) -> bytes:
    obj: Json = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "many", "namespace": "default"},
        "data": {f"key-{number:04}": "x" for number in range(keys)},
    }
    return body(obj)


async def _heavy(service: Service, sent: bytes, seconds: float = 30) -> Json:
    return await service.answer(sent, f"/validate/policies?timeout={seconds}s")


async def _guard(service: Service, ending: asyncio.Event) -> list[float]:
    """Ask the guard until the end; the seconds of each refusal."""
    seconds = []
    sent = body(pod(labels=RESERVED))
    async with service.connection() as wire:
        while not ending.is_set():
            began = time.perf_counter()
            answer = answer_of((await wire.call(sent, path="/validate/labels")).body)
            seconds.append(time.perf_counter() - began)
            assert answer["allowed"] is False
            assert "coreweave.cloud" in answer["status"]["message"]
            await asyncio.sleep(0.005)  # others need the processor, too
    return seconds


async def _alive(service: Service, ending: asyncio.Event) -> list[float]:
    seconds = []
    while not ending.is_set():
        began = time.perf_counter()
        assert (await service.ask("/livez")).status == 200
        seconds.append(time.perf_counter() - began)
    return seconds


async def test_policies_that_take_seconds_keep_nobody_else_waiting(tmp_path: Path) -> None:
    """Under eight quadratic policies the guard and /livez answer on, and each slow review gets its right verdict."""
    async with Service(tmp_path, "--policies", _policies(tmp_path, _DEAR)) as service:
        await service.port()
        ending = asyncio.Event()
        others = [asyncio.create_task(look(service, ending)) for look in (_guard, _alive)]
        began = time.perf_counter()
        answers = await asyncio.gather(*(_heavy(service, _config_map(220)) for _ in range(3)))
        seconds = time.perf_counter() - began
        ending.set()
        guard, alive = await asyncio.gather(*others)

        assert answers == [{**answers[0], "allowed": True}] * 3
        assert max(guard) < seconds / _PART
        assert max(alive) < seconds / _PART
        assert len(guard) > 20
        exposed = (await service.ask("/metrics")).text
        assert 'cks_admission_child_reviews_total{outcome="answered"} 3.0\n' in exposed


async def test_policies_over_their_limit_end_with_the_reference_s_error(tmp_path: Path) -> None:
    """A child process says the same as the event loop would: the cost limit's error, by the failurePolicy."""
    async with Service(tmp_path, "--policies", _policies(tmp_path, _DEARER)) as service:
        answer = await _heavy(service, _config_map(400))

    assert answer["allowed"] is False
    assert answer["status"]["message"].count(_OVER) == 8
    assert json.dumps(answer["auditAnnotations"]).count("deny") == 8


async def test_a_slow_policy_that_is_mended_is_evaluated_at_once(tmp_path: Path) -> None:
    """A policy that is skipped for its slowness refuses what it matches, until it is changed."""
    policies: Json = {"directories": [_policies(tmp_path, _DEAR)], "slow": "skip"}
    async with Service(tmp_path, policies=policies) as service:
        allowed = False
        async with asyncio.timeout(PATIENCE):
            for seconds in cycle(_TIMES):
                answer = await _heavy(service, _config_map(340), seconds)
                if "it was too slow several times" in answer.get("status", {}).get("message", ""):
                    break
            _policies(tmp_path, "true")
            while not allowed:
                allowed = (await _heavy(service, _config_map(340)))["allowed"]
