"""The record of a session, written to disk before each next request to the service.

asked    a machine or an upload may be there
up       machine and upload are there
running  runs may be under way, and rows be there
fetched  nothing more comes of it; what was uploaded may be there
closed   nothing is there
"""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dr_lib.files import write_json

FILE = "sessions.json"  # in the study's folder


@dataclass
class Record:
    """A session of a study."""

    session: str
    on: str
    runs: list[str]
    host: str
    started: str
    others: list[str] = field(default_factory=list)  # machines that the account had before
    state: str = "closed"
    ended: str = ""
    pack: str = ""  # SHA-256 of what was uploaded
    job: dict[str, Any] = field(default_factory=dict)  # of the far side
    hours: float = 0.0  # of the session, 0 without a limit
    made: list[str] = field(default_factory=list)  # runs that ended, and are here
    unit: str = ""
    units_before: float = 0.0
    units_after: float | None = None
    units_per_hour: float | None = None
    usd: float | None = None

    def save(self, folder: Path) -> None:
        """Write the record next to those of the study's other sessions."""
        records = [one for one in read_records(folder) if one.session != self.session]
        write_json(folder / FILE, [asdict(one) for one in [*records, self]])


def read_records(folder: Path) -> list[Record]:
    """Read the sessions of a study's folder; of older records, the fields still in use."""
    path = folder / FILE
    if not path.exists():
        return []
    names = [one.name for one in fields(Record)]
    written = json.loads(path.read_bytes())
    return [Record(**{name: one[name] for name in names if name in one}) for one in written]
