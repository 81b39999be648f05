"""Checksums are zlib's, whoever computes them: files outlive the machine they were written on."""

from __future__ import annotations

import subprocess
import sys
import zlib
from random import Random

from warren.checksum import crc32


def test_whoever_computes_it_it_is_the_crc_of_zlib() -> None:
    random = Random(1)
    for size in [*range(300), 1000, 4095, 4096, 4097, 65_536, 1_000_003]:
        data, start = random.randbytes(size), random.getrandbits(32)
        assert crc32(data, start) == zlib.crc32(data, start)
        assert crc32(data) == zlib.crc32(data)


def test_where_there_is_no_isa_l_zlib_does() -> None:
    script = (
        "import sys, zlib; sys.modules['isal'] = sys.modules['isal.isal_zlib'] = None\n"
        "import warren.checksum, warren.store.format as format\n"
        "assert warren.checksum.crc32 is zlib.crc32\n"
        "assert format.read_file_header(format.file_header(7, 99), 7) == 99\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
