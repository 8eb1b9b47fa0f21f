"""Axes of ndonnx whose length is not known."""

from __future__ import annotations

import pytest

import arrayq as aq

ndx = pytest.importorskip("ndonnx")


@pytest.mark.parametrize("length", ["N", None])
@pytest.mark.parametrize("function", [aq.quantize, aq.calibrate, aq.fake_quantize])
def test_an_unknown_length_is_refused_with_the_reason(length: object, function: object) -> None:
    x = ndx.argument(shape=(length, 64), dtype=ndx.float32)
    with pytest.raises(aq.UnsupportedSchemeError, match="requires a known length on each axis"):
        function(x, "nvfp4")  # type: ignore[operator]
