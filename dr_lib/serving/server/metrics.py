"""What a server counts of its requests, for Prometheus; nothing of a person.

What drifts first is counted beside what the photographs had on which the model was evaluated: the
share of each grade, and of photographs whose field of view is not ok.
"""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from dr_lib.errors import DrError


class Metrics:
    """The metrics of one server."""

    def __init__(self, facts: Mapping[str, Any]):
        """Take the facts of the served model; `expected` has its shares where export knew them."""
        self.registry = CollectorRegistry()
        registry = self.registry
        self._requests = Counter(
            "fundus_requests", "requests by status", ["status"], registry=registry
        )
        self._seconds = Histogram(
            "fundus_request_seconds",
            "time of an answered request",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),  # upper bounds [s]
            registry=registry,
        )
        self._grades = Counter(
            "fundus_grades", "answers by the grade given", ["grade"], registry=registry
        )
        self._not_ok = Counter(
            "fundus_not_ok",
            "answers about a photograph whose field of view is not ok",
            registry=registry,
        )
        self.accepted = Gauge(
            "fundus_accepted", "requests that wait or are predicted", registry=registry
        )
        expected = facts.get("expected") or {}
        shares = Gauge(
            "fundus_expected_share",
            "share at the model's evaluation",
            ["of"],
            registry=registry,
        )
        for name, share in expected.items():
            shares.labels(name).set(share)

    def count_request(self, status: int, seconds: float) -> None:
        """Count a request; its time if it was answered."""
        self._requests.labels(status).inc()
        if status == 200:
            self._seconds.observe(seconds)

    def count_answer(self, answer: Mapping[str, Any]) -> None:
        """Count the grade and the field of view of an answer."""
        self._grades.labels(answer["most_probable_grade"]).inc()
        self._not_ok.inc(answer["fundus"]["status"] != "ok")

    def serve(self, host: str, port: int) -> None:
        """Serve the metrics from a thread, at /metrics of a port of their own.

        Raises:
            DrError: nobody can listen there.
        """
        try:
            start_http_server(port, host, self.registry)
        except OSError as error:
            raise DrError(
                f"cannot serve metrics on port {port} of {host} ({error.strerror}): choose another"
                " --metrics-port"
            ) from error
