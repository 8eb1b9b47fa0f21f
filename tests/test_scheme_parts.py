"""The parts of a scheme: values, stores, modes, dtypes, blocks."""

import numpy as np
import pytest

from arrayq.errors import LayoutError, SchemeError
from arrayq.formats import FORMATS, SCALE_FORMATS, VALUE_FORMATS, Kind
from arrayq.scheme import (
    SPAN,
    BlockScale,
    QuantScheme,
    QuantStore,
    QuantValue,
    ScaleDtype,
)

FIELDS = [value for value in QuantValue if value.kind is Kind.FIELD]

STORES = [
    QuantStore.NATIVE,
    QuantStore.packed_native(),
    QuantStore.packed_native(2),
    QuantStore.packed_u32(),
    QuantStore.packed_u32(1),
]


# Parts.


def test_every_value_and_scale_dtype_is_a_row_of_the_registry():
    assert [str(value) for value in QuantValue] == list(VALUE_FORMATS)
    assert [str(dtype) for dtype in ScaleDtype] == list(SCALE_FORMATS)


@pytest.mark.parametrize("value", QuantValue)
def test_a_value_knows_what_its_row_says(value):
    row = FORMATS[value.value]
    assert value.format is row
    assert (value.bits, value.kind, value.range) == (row.bits, row.kind, (row.qmin, row.qmax))


def test_the_symmetric_values_are_those_whose_range_is():
    asymmetric = {value for value in QuantValue if not value.is_symmetric}
    assert asymmetric == {QuantValue.Q8F, QuantValue.Q4F, QuantValue.Q2F, *FIELDS}


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        ("f32", "float32"),
        ("f16", "uint16"),
        ("bf16", "uint16"),
        ("ue8m0", "uint8"),
        ("ue4m3", "uint8"),
    ],
)
def test_scales_are_stored_as_float32_or_as_their_bits(dtype, stored):
    assert ScaleDtype(dtype).stored_dtype == stored


@pytest.mark.parametrize("store", STORES)
def test_a_store_is_spelled_and_shown_so_that_it_can_be_built_again(store):
    assert QuantStore.of(str(store)) == store
    assert QuantStore.of(str(store).upper()) == store
    assert eval(repr(store)) == store


def test_the_axis_of_a_packed_store_is_the_innermost_when_not_given():
    assert QuantStore.of("packed_u32") == QuantStore.of("packed_u32(0)")
    assert str(QuantStore.packed_u32(0)) == "packed_u32"


@pytest.mark.parametrize(
    "spelling",
    [
        "packed",
        "packed_u32(-1)",
        "packed_u32(1",
        "packed_u32()",
        "native(1)",
        "",
        8,
        "packed_u32(99999999999999999999)",
    ],
)
def test_a_misspelled_store_is_refused(spelling):
    with pytest.raises(SchemeError):
        QuantStore.of(spelling)


@pytest.mark.parametrize("dim", [-1, True, 1.0, "1", None])
def test_the_packed_axis_is_a_whole_number_from_zero(dim):
    with pytest.raises(SchemeError, match="packed axis"):
        QuantStore.packed_u32(dim)


@pytest.mark.parametrize("value", QuantValue)
def test_a_word_holds_as_many_whole_codes_as_fit(value):
    assert QuantStore.NATIVE.codes_per_word(value) == 1
    assert QuantStore.packed_native().codes_per_word(value) == 8 // value.bits
    assert QuantStore.packed_u32().codes_per_word(value) == 32 // value.bits


def test_words_are_unsigned_and_native_integers_are_not():
    scheme = QuantScheme("q4s", "native")
    assert scheme.data_dtype == "int8"
    assert scheme.with_store("packed_native").data_dtype == "uint8"
    assert scheme.with_store("packed_u32").data_dtype == "uint32"
    assert scheme.with_mode("lookup").data_dtype == "uint8"
    assert scheme.with_value("e4m3").data_dtype == "uint8"


# Blocks.


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ([1, 32], (32,)),
        ([32], (32,)),
        (32, (32,)),
        ([1, 1, 4, 1], (4, 1)),
        ([1], (1,)),
        ([1, 1, 1], (1,)),
        ([-1, 32], (-1, 32)),
        ([1, -1], (-1,)),
        ([2**63 - 1], (2**63 - 1,)),
        (np.array([2, 16], np.int16), (2, 16)),
        ((extent for extent in (2, 16)), (2, 16)),
    ],
)
def test_leading_ones_are_dropped_from_a_block(given, canonical):
    size = BlockScale(given).size
    assert size == canonical
    assert all(type(extent) is int for extent in size)


@pytest.mark.parametrize(
    "size",
    [
        [],
        [0],
        [-2],
        [2**63],
        [True],
        [np.True_],
        [2.0],
        ["2"],
        "2",
        None,
        [None],
        [[2]],
        [16, 0],
        2.0,
        False,
    ],
)
def test_a_block_that_is_no_list_of_extents_is_refused(size):
    with pytest.raises(SchemeError, match="block"):
        QuantScheme().per_block(size)


@pytest.mark.parametrize("axis", [True, 1.0, "0", None])
def test_a_channel_axis_is_a_whole_number(axis):
    with pytest.raises(SchemeError, match="axis of per_channel requires an integer"):
        QuantScheme().per_channel(axis)


@pytest.mark.parametrize(
    ("size", "ndim", "extents"),
    [
        ([32], 1, (32,)),
        ([32], 3, (1, 1, 32)),
        ([2, 16], 3, (1, 2, 16)),
        ([-1, 16], 3, (1, -1, 16)),
        ([1], 2, (1, 1)),
    ],
)
def test_blocks_are_aligned_to_the_trailing_axes(size, ndim, extents):
    assert QuantScheme().per_block(size).block_extents(ndim) == extents


@pytest.mark.parametrize("ndim", range(4))
@pytest.mark.parametrize("scheme", [QuantScheme(), QuantScheme().per_tensor()])
def test_without_blocks_every_axis_is_spanned(scheme, ndim):
    assert scheme.block_extents(ndim) == (SPAN,) * ndim


def test_a_block_of_more_axes_than_the_array_is_refused():
    with pytest.raises(LayoutError, match=r"at least 2 axes, got one of 1"):
        QuantScheme().per_block([2, 16]).block_extents(1)


def test_even_the_smallest_block_needs_an_axis():
    with pytest.raises(LayoutError):
        QuantScheme().per_block([1]).block_extents(0)


@pytest.mark.parametrize("ndim", range(1, 5))
def test_a_channel_spans_every_axis_but_its_own(ndim):
    for axis in range(-ndim, ndim):
        extents = QuantScheme().per_channel(axis).block_extents(ndim)
        expected = [SPAN] * ndim
        expected[axis] = 1
        assert extents == tuple(expected)


def test_resolving_a_channel_gives_the_block_of_that_rank_and_keeps_the_dtype():
    scheme = QuantScheme("q8s").per_channel(-2, "f16")
    assert scheme.resolve(3).block == BlockScale([-1, 1, -1], "f16")
    assert scheme.resolve(3).resolve(3) == scheme.resolve(3)


@pytest.mark.parametrize(("axis", "ndim"), [(0, 0), (2, 2), (-3, 2)])
def test_a_channel_axis_that_the_array_lacks_is_refused(axis, ndim):
    with pytest.raises(LayoutError, match=f"per_channel\\({axis}\\) requires"):
        QuantScheme().per_channel(axis).resolve(ndim)
