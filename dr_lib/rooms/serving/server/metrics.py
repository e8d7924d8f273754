"""What a server counts of its requests, for Prometheus; nothing of a person.

What drifts first is counted beside what the photographs had on which the model was evaluated: the
share of each grade, and of photographs whose field of view is not ok.
"""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from dr_lib.errors import DrError

SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)  # upper bounds of the histogram


class Metrics:
    """The metrics of one server."""

    def __init__(self, facts: Mapping[str, Any]):
        """Take the facts of the served model; `expected` has its shares where export knew them."""
        self.registry = CollectorRegistry()
        self._requests = self._make(
            Counter, "fundus_requests", "requests by status", ["status"]
        )
        self._seconds = self._make(
            Histogram, "fundus_request_seconds", "time of an answered request", buckets=SECONDS
        )
        self._grades = self._make(
            Counter, "fundus_grades", "answers by the grade given", ["grade"]
        )
        self._not_ok = self._make(
            Counter, "fundus_not_ok", "answers about a photograph whose field of view is not ok"
        )
        self.accepted = self._make(
            Gauge, "fundus_accepted", "requests that wait or are predicted"
        )
        expected = facts.get("expected") or {}
        shares = self._make(
            Gauge, "fundus_expected_share", "share at the model's evaluation", ["of"]
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

    def _make(self, kind: type, name: str, about: str, labels=(), **more):
        return kind(name, about, labels, registry=self.registry, **more)
