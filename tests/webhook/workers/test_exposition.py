"""The sums of several workers' metrics: what is added, what is not, and that nothing gets lost or goes back."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from webhook.metrics import Metrics
from webhook.workers.exposition import GAUGES, lasting, total


def _samples(text: bytes) -> dict[str, float]:
    """Every sample, but for times of creation, as name and label values."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def _some(counted: int, seconds: float, label: str = "a") -> bytes:
    """A counter, a histogram and an unknown gauge, as a worker tells them."""
    registry = CollectorRegistry()
    counter = Counter("reviews_total", "Reviews.", ("of",), registry=registry)
    histogram = Histogram("took_seconds", "Time.", buckets=(0.1, 1.0), registry=registry)
    counter.labels(label).inc(counted)
    histogram.observe(seconds)
    Gauge("height", "Height.", registry=registry).set(counted)
    return generate_latest(registry)


def test_every_gauge_says_what_several_come_to() -> None:
    """Whoever adds a gauge decides whether workers' values are added, or which of them counts."""
    gauges = {
        getattr(collector, "_name")  # noqa: B009 - a private name of the library
        for collector in Metrics().registry._collector_to_names
        if isinstance(collector, Gauge)
    }

    assert set(GAUGES) == gauges


def test_the_sum_of_one_is_that_one() -> None:
    """A single text comes out as it went in, help texts, types and times of creation included."""
    metrics = Metrics()
    metrics.rejected_calls.labels('5"0\\3\n').inc(2)
    metrics.policies_loaded(["ValidatingAdmissionPolicy"], refused=True)
    metrics.certificate_expiry.set(1.8e9)
    text = metrics.expose()

    assert total([text]) == text
    assert total([b"", text, b""]) == text


def test_no_metrics_are_none() -> None:
    """Before any worker has told anything there is nothing to tell."""
    assert total([]) == b""
    assert total([b"", b""]) == b""
    assert lasting(b"") == b""


def test_counters_and_histograms_are_added_by_their_labels() -> None:
    """Series with the same labels are one sum, others stand beside each other; buckets are added one by one."""
    assert _samples(total([_some(2, 0.0625), _some(3, 0.5), _some(4, 8.0, "b")])) == {
        "reviews_total a": 5,
        "reviews_total b": 4,
        "took_seconds_bucket 0.1": 1,
        "took_seconds_bucket 1.0": 2,
        "took_seconds_bucket +Inf": 3,
        "took_seconds_count": 3,
        "took_seconds_sum": 8.5625,
        "height": 4,
    }


class _Kept:
    """The inventory of a supervisor."""

    def age(self) -> float:
        """Some seconds."""
        return 9

    def sizes(self) -> dict[str, int]:
        """Some Nodes."""
        return {"node": 3}


def test_gauges_are_combined_each_in_its_way() -> None:
    """What is under way is added; of faults and of what there is, the most counts; of known dates, the next."""
    one, other, starting = Metrics(), Metrics(), Metrics()
    one.in_flight.set(2)
    other.in_flight.set(3)
    one.bytes_in_flight.set(20)
    other.bytes_in_flight.set(30)
    one.connections.set(200)
    other.connections.set(300)
    one.policies_loaded(["ValidatingAdmissionPolicy"] * 4, refused=False)
    other.policies_loaded(["ValidatingAdmissionPolicy"] * 3, refused=True)
    one.shadow.policies_loaded(["ValidatingAdmissionPolicy"] * 3, refused=False)
    other.shadow.policies_loaded(["ValidatingAdmissionPolicy"], refused=True)
    one.certificate_expiry.set(2000)
    other.certificate_expiry.set(1000)
    other.leader.set(1)
    other.label_writers.labels("CustomResourceDefinition", "possible").set(2)
    other.placing.lost.set(6)
    other.audits.show(4, [])
    one.configuration_refused.set(1)
    one.silence.set(7)
    starting.workers.set(2)
    starting.placing.inventory = _Kept()

    samples = _samples(total([metrics.expose() for metrics in (one, other, starting)]))

    assert {name: value for name, value in samples.items() if name.split()[0] in GAUGES and "build" not in name} == {
        "cks_admission_requests_in_flight": 5,
        "cks_admission_child_reviews_waiting": 0,
        "cks_admission_bytes_in_flight": 50,
        "cks_admission_connections": 500,
        "cks_admission_policies ValidatingAdmissionPolicy": 4,
        "cks_admission_policies MutatingAdmissionPolicy": 0,
        "cks_admission_policies_refused": 1,
        "cks_admission_shadow_policies": 3,
        "cks_admission_shadow_policies_refused": 1,
        "cks_admission_certificate_expiry_timestamp_seconds": 1000,
        "cks_admission_authority_expiry_timestamp_seconds": 0,
        "cks_admission_leader": 1,
        "cks_admission_label_writers CustomResourceDefinition possible": 2,
        "cks_admission_registration_entries_withheld": 0,
        "cks_admission_configuration_refused": 1,
        "cks_admission_api_server_silence_seconds": 7,
        "cks_admission_gangs_without_domain": 6,
        "cks_admission_audit_end_timestamp_seconds": 4,
        "cks_admission_audit_duration_seconds": 0,
        "cks_admission_audit_objects": 0,
        "cks_admission_audit_unreadable_kinds": 0,
        "cks_admission_inventory_age_seconds": 9,
        "cks_admission_inventory_objects node": 3,
        "cks_admission_workers": 2,
    }
    assert [value for name, value in samples.items() if "build_info" in name] == [1]


def test_the_first_time_of_creation_stays() -> None:
    """A series is as old as the oldest that it was added up from, so that its rate is not overrated."""
    texts = [_some(1, 0.5), _some(1, 0.5)]
    created = [_created(text) for text in texts]

    assert created[0] != created[1]
    assert _created(total(reversed(texts))) == created[0]


def _created(text: bytes) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name.endswith("_created")
    }


def test_of_one_that_has_ended_the_counts_stay() -> None:
    """Counters, histograms and their times of creation stay; how it was does not."""
    text = _some(2, 0.5)

    assert _samples(lasting(text)) == {name: value for name, value in _samples(text).items() if name != "height"}
    assert _created(lasting(text)) == _created(text)
    assert _samples(total([lasting(text), _some(3, 0.5)]))["reviews_total a"] == 5
