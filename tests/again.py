"""What failed in the last run once more, alone: a miss of a busy machine passes then, a fault of ours does not.

python -m tests.again [ARGUMENTS OF PYTEST]

Only for continuous integration, where one late answer of a real process would throw away all the rest. What passes is
named as shaky, for somebody to mend: a test should not depend on what else runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LAST_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
# More than these have another reason than the machine.
MOST: Final = 5


def main(arguments: Sequence[str] | None = None) -> int:
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not 0 < len(failed) <= MOST:
        return 1
    given = sys.argv[1:] if arguments is None else arguments
    status = subprocess.call([sys.executable, "-m", "pytest", "--lf", "--lfnf=none", *given])
    if status == 0:
        for name in failed:
            sys.stdout.write(f"SHAKY: failed among others, passed alone: {name}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
