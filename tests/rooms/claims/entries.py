"""The claims that tests judge."""

import pytest

from dr_lib.report.papers import PAPERS
from dr_lib.rooms.claims.claims import Claim, read_claims


def find_claim(claim_id: str) -> Claim:
    """One claim; the test is skipped where the room of its paper is absent."""
    if claim_id[0] not in PAPERS:
        pytest.skip(f"the room of paper {claim_id[0]} is absent")
    (found,) = [claim for claim in read_claims() if claim.id == claim_id]
    return found
