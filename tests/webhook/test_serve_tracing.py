"""The traces of the real process, as a receiver gets them."""

import socket
from pathlib import Path

from support.builders import pod
from support.patience import until
from support.service.processes import Service, free_port
from support.service.receiver import receiving
from support.service.reviews import UID, body, refused_body
from support.service.wire import JSON

_TRACE, _PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_SENT = JSON + f"traceparent: 00-{_TRACE}-{_PARENT}-01\r\n".encode()
_COUNTED = 'cks_admission_traces_total{{outcome="{}"}} 1.0\n'
_UNSAMPLED = JSON + f"traceparent: 00-{_TRACE[::-1]}-{_PARENT}-00\r\n".encode()


async def test_a_trace_goes_on_with_the_span_of_the_caller(tmp_path: Path) -> None:
    """The parts of a review are sent under the caller's span; a caller that does not trace has no trace."""
    async with receiving() as receiver:
        tracing = {"endpoint": receiver.address, "share": 0, "ruleSeconds": 0}
        async with Service(tmp_path, tracing=tracing) as service:
            async with service.connection() as wire:
                for headers in (_UNSAMPLED, JSON, _SENT):
                    assert (await wire.call(refused_body(), "/validate/labels", headers)).status == 200
            await until(lambda: bool(receiver.spans))

            review, *parts = receiver.of(_TRACE)
            assert len(receiver.spans) == len(parts) + 1
            assert (review.name, review.parent, review.kind) == ("review", _PARENT, "SPAN_KIND_SERVER")
            assert review.attributes == {
                "http.request.method": "POST",
                "http.response.status_code": 200,
                "http.route": "/validate/labels",
                "cks_admission.uid": UID,
                "cks_admission.operation": "CREATE",
                "cks_admission.resource": "pods",
                "cks_admission.namespace": "default",
                "cks_admission.name": "trainer",
                "cks_admission.dry_run": False,
                "cks_admission.allowed": False,
                "cks_admission.verdicts": ("labels: deny",),
            }
            assert review.sender["service.name"] == "cks-admission"
            assert review.sender["service.instance.id"] == socket.gethostname()
            assert [part.name for part in parts] == ["receive", "decode", "match", "rule", "encode"]
            assert {part.parent for part in parts} == {review.own}
            assert all(review.start <= part.start <= part.end <= review.end for part in parts)
            assert parts[3].attributes == {"cks_admission.rule": "labels"}


async def test_reviews_in_a_child_process_are_traced(tmp_path: Path) -> None:
    """What the child process does is in the trace, and nothing of its spans is sent by the child itself."""
    async with (
        receiving() as receiver,
        Service(tmp_path, tracing={"endpoint": receiver.address, "share": 1}) as service,
    ):
        await service.answer(body(pod(annotations={"large": "x" * 300 * 1024})), "/validate/labels")
        await service.shows(_COUNTED.format("sent"))

        (trace,) = {span.trace for span in receiver.spans}
        review, *parts = receiver.of(trace)
        assert (review.name, review.parent) == ("review", "")
        names = [part.name for part in parts if part.name != "rule"]
        assert sorted(names) == ["child", "decode", "encode", "receive"]


async def test_a_receiver_that_is_down_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Reviews are answered, one line says that traces are lost, and they are counted."""
    with free_port() as port:
        async with Service(tmp_path, tracing={"endpoint": f"http://127.0.0.1:{port}", "share": 1}) as service:
            await service.answer(refused_body())
            lost = await service.event("traces lost")
            await service.shows(_COUNTED.format("lost"))

            assert lost["reason"].startswith(f"http://127.0.0.1:{port}: Failed to export spans")
            assert "tracing: http://" in (await service.ask("/readyz?verbose")).text
            assert [event["event"] for event in service.events if event["level"] != "info"] == ["traces lost"]
    assert service.noise == []
