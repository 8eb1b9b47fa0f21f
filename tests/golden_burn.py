"""What burn made of tensors, and the schemes that it did it by.

Shared by the test_golden modules of burn.npz.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from golden_cases import Case, assert_same_floats

import arrayq as aq


def scheme_of(case: Case) -> aq.QuantScheme:
    """Build the scheme that a case's parameters describe, with burn's own numerics."""
    params = case.params
    dtype = params["scale_dtype"].lower()
    scheme = aq.QuantScheme().with_value(params["value"].lower()).with_store("native")
    if params["block"] == "-":
        return scheme.per_tensor(dtype)
    scheme = scheme.per_block([int(size) for size in params["block"].split(",")], dtype)
    return scheme.per_tensor("f32") if params["two_level"] else scheme


def tensors(case: Case) -> list[tuple[npt.NDArray[Any], dict[str, npt.NDArray[Any]]]]:
    """Return each tensor that the producer quantized with what it made of it."""
    x = case.input()
    arrays = {role: case.array(role) for role in case.roles}
    if "every row a separate" not in case.function:
        return [(x, arrays)]
    return [
        (x[row : row + 1], {role: array[row : row + 1] for role, array in arrays.items()})
        for row in range(len(x))
    ]


def elements_of(blocks: npt.NDArray[np.bool_], q: aq.QuantizedArray) -> npt.NDArray[np.bool_]:
    """Spread a flag for each block over the block's elements."""
    sizes = [
        n if size == -1 else size
        for n, size in zip(q.shape, q.scheme.block_extents(q.ndim), strict=True)
    ]
    spread = blocks.reshape(q.scale.shape)
    for axis, size in enumerate(sizes):
        spread = spread.repeat(size, axis)
    return spread[tuple(slice(n) for n in q.shape)]


def assert_is_burns(
    expected: dict[str, npt.NDArray[Any]], q: aq.QuantizedArray, values: npt.NDArray[Any]
) -> None:
    """Compare everything in blocks whose scale burn did not make infinite."""
    scales = expected["scales"].reshape(q.scale.shape)
    usable = ~np.isinf(scales)
    np.testing.assert_array_equal(q.scale[usable], scales[usable])
    seen = elements_of(usable, q)
    np.testing.assert_array_equal(q.data[seen], expected["q"][seen])
    assert_same_floats(values[seen], expected["deq"][seen])
    if q.scheme.two_level:
        assert q.tensor_scale == expected["global"].ravel()[0]
    else:
        assert q.tensor_scale is None
