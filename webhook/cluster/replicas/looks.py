"""The looks around the cluster of the process that leads, by their names."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, NoReturn

from webhook.cluster.replicas.audits import AuditLook
from webhook.cluster.replicas.labelwriters import LabelWriters
from webhook.cluster.replicas.waitingpods import Judgement, WaitingPods
from webhook.cluster.survey.survey import NodeSurvey, Surroundings
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


def looks(
    api: Connection,
    settings: Callable[[], Settings],
    judgement: Callable[[], Judgement],
    leading: Callable[[], bool],
    measures: Metrics,
) -> dict[str, Coroutine[None, None, NoReturn]]:
    """What is to run until it is cancelled. settings, judgement: the current ones, the latter with the facts."""
    around = Surroundings(settings, lambda: judgement()[1], leading)
    return {
        "waiting Pods": WaitingPods(api, judgement, leading).run(),
        "label writers": LabelWriters(api, settings, leading, measures).run(),
        "audits": AuditLook(api, settings, leading, measures.audits).run(),
        "Nodes": NodeSurvey(api, around, measures.placing).run(),
    }
