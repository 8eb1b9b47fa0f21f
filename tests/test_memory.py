"""What a quantize call needs beside its outputs: little, whatever the array."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gc, re, sys
import numpy as np, arrayq as aq

def resident(field):
    return 1024 * int(re.search(field + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])

spelling, given = sys.argv[1], sys.argv[2] == "given"
x = np.ones((2048, 2048), np.float32)
qparams = aq.calibrate(x, spelling) if given else None
aq.quantize(x[:64], spelling, qparams=aq.calibrate(x[:64], spelling) if given else None)
gc.collect()
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
q = aq.quantize(x, spelling, qparams=qparams)
print(resident("VmHWM") - before - q.nbytes)
"""


def can_reset_the_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not can_reset_the_peak(), reason="needs Linux's /proc/self/clear_refs")
@pytest.mark.parametrize("given", ["calibrated", "given"])
@pytest.mark.parametrize("spelling", ["int8/row", "q8s/8:f32", "int4/32", "nf4/64", "nvfp4"])
def test_quantizing_takes_its_outputs_and_two_megabytes(spelling: str, given: str) -> None:
    # freed memory goes back to the system at once, so that none of it hides what is allocated
    eager = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, spelling, given],
        env={**os.environ, **eager},
        capture_output=True,
        text=True,
        check=True,
    )
    assert -500_000 < int(done.stdout) < 2_000_000
