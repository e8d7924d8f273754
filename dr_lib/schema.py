"""The number of the schema of rows, prepared folders and models, which each of them holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEMA = 2  # one more whenever what an earlier version wrote is read no more


def find_other_schema(facts: Mapping[str, Any], again: str) -> str:
    """Say that facts are of another schema, and what to do; nothing of this one's.

    Args:
        facts: a row, or the manifest of a prepared folder or of a model.
        again: how to make it again, as an imperative.
    """
    number = facts.get("schema")
    if number == SCHEMA:
        return ""
    told = "names no schema" if number is None else f"is of schema {number}"
    return (
        f"it {told}, this version reads schema {SCHEMA}: open it with the version that wrote it, "
        f"or {again}"
    )
