"""Damaged files cost what was in the damaged bytes and nothing else, and a wrong body is never served.

1,500 corruptions, and 3,500 more where long tests are run; `python -m tests.faults.damage` goes on for as long as one
likes.
"""

from __future__ import annotations

import pytest

from tests.faults import sabotage
from tests.faults.damage import run
from tests.faults.ledger import Violation

SEED = 20261115


@pytest.mark.parametrize("part", [*range(3), *(pytest.param(part, marks=pytest.mark.long) for part in range(3, 10))])
def test_damage_costs_only_what_was_damaged(part: int) -> None:
    assert run(500, SEED + part) > 0


def test_a_store_that_believes_every_checksum_is_found_out() -> None:
    with pytest.raises(Violation):
        run(500, SEED, sabotage.NO_CRC)
