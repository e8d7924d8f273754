"""What faults of Colab and Kaggle cost: python -m tools.bench_remote [NUMBER [SEED]].

Sessions by the services' own clients against stand-ins on this machine, each with one random fault,
once or lasting; then the same command is repeated without faults until nothing is left to do. A
line is a fault: how often it struck; sessions whose finished rows were lost, that left something
unsaid, left something in the end, had a traceback or a secret in their output; sessions that began
again; and what was said. Seeded; 100 faults by default.
"""

import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.rooms.remote.conftest import open_services
from tests.rooms.remote.faults import list_faults, try_fault

SEED = 31
COUNTED = ("struck", "lost", "untold", "left", "trace", "secret", "again")


def main() -> None:
    """Print the table."""
    number, seed = map(int, (sys.argv[1:] + ["100", str(SEED)][len(sys.argv) - 1 :]))
    found = defaultdict(list)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as home, open_services(Path(home)) as services:
        for fault in list_faults(number, seed):
            with tempfile.TemporaryDirectory() as folder:
                outcome = try_fault(fault, Path(folder, "house"), services)
            print(*fault, outcome, file=sys.stderr, flush=True)
            found[fault].append(outcome)
    print(f"{number} faults, seed {seed}, {time.monotonic() - start:.0f} s")
    print(f"service, request, fault, after, times: n, {', '.join(COUNTED)}: said")
    every = [outcome for outcomes in found.values() for outcome in outcomes]
    for fault, outcomes in [*sorted(found.items(), key=str), (("all",), every)]:
        counts = [sum(outcome[name] for outcome in outcomes) for name in COUNTED]
        print(*fault, ":", len(outcomes), *counts, ":", outcomes[0]["said"][:150])


if __name__ == "__main__":
    main()
