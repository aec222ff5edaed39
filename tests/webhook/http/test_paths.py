"""What a replica announces that it answers."""

from __future__ import annotations

import json

from support.service.reviews import TODAY, refused_body
from support.service.servers import Serve, default_rules

from policies.engine.facts import StaticFacts
from webhook.http.decision import Served
from webhook.http.health import ANSWERED


async def test_a_replica_lists_the_paths_that_it_answers(serve: Serve) -> None:
    """`/paths` on the health port has every path at which a review is answered, and no other."""
    running = await serve(Served(default_rules(), StaticFacts(TODAY)))

    reply = await running.get("/paths")
    listed = json.loads(reply.body)
    statuses = {path: (await running.post(refused_body(), path)).status for path in [*listed, "/validate/other"]}

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert listed == sorted(listed)
    assert {path for path, status in statuses.items() if status == 200} == set(listed)
    assert set(listed) >= ANSWERED
