"""`python -m warren` is the command `warren`."""

from __future__ import annotations

from warren.cli.main import main

main()
