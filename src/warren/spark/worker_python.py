"""The Python that Spark starts on this machine, without the archives that Spark puts first.

From there each process compiles all of pyspark anew, which takes longer than all that a query then asks it, and reads
the list of what is in a jar of classes whenever Spark has it look for new modules.
"""

from __future__ import annotations

import os
import shlex
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from warren.spark.scripts import script_at

_ARCHIVES: Final = ("pyspark.zip", "py4j[^:]*.zip", "spark-core_[^:]*.jar")


def worker_python() -> str:
    """This one as it is where pyspark was not installed with it: the archives are all there is then."""
    found = find_spec("pyspark")
    home = None if found is None or found.origin is None else Path(found.origin).parent
    if home is None or not (home / "jars").is_dir() or os.environ.get("SPARK_HOME", str(home)) != str(home):
        return sys.executable
    without = "".join(f"s#[^:]*/{name}##g; " for name in _ARCHIVES) + "s#::*#:#g; s#^:##"
    text = (
        "#!/bin/sh\n"
        f"PYTHONPATH=$(echo \"$PYTHONPATH\" | sed '{without}')\n"
        f'export PYTHONPATH\nexec {shlex.quote(sys.executable)} "$@"\n'
    )
    return str(script_at(f"python/{sha256(sys.executable.encode()).hexdigest()[:12]}", text))
