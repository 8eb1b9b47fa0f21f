"""Numerics are data with burn's rules as defaults."""

import json
import math
import pickle

import numpy as np
import pytest

from arrayq.errors import SchemeError
from arrayq.formats import Kind
from arrayq.numerics import (
    ROUNDING_OF_KIND,
    Calibration,
    Numerics,
    Rounding,
    ScaleFrom,
    ScaleRounding,
    Scaling,
    TensorFrom,
    ZeroBlock,
    ZeroRounding,
)

RULES = {
    "rounding": Rounding,
    "scaling": Scaling,
    "scale_from": ScaleFrom,
    "scale_rounding": ScaleRounding,
    "zero_block": ZeroBlock,
    "tensor_from": TensorFrom,
    "calibration": Calibration,
    "zero_rounding": ZeroRounding,
}
CHOICES = [(rule, choice) for rule, choices in RULES.items() for choice in choices]
NUMBERS = [
    ("seed", 2**64 - 1),
    ("smallest_scale", 2.0**-149),
    ("smallest_scale", float(np.float32(1e-5))),
    ("zero_in_range", False),
]


def test_the_defaults_are_those_of_burn():
    assert Numerics() == Numerics(
        rounding=None,
        seed=0,
        scaling=Scaling.DIVIDE,
        scale_from=ScaleFrom.RANGE,
        scale_rounding=ScaleRounding.UP,
        smallest_scale=0.0,
        zero_block=ZeroBlock.ZERO,
        tensor_from=TensorFrom.BLOCK_SCALES,
        calibration=Calibration.MINMAX,
        zero_in_range=True,
        zero_rounding=ZeroRounding.NONE,
    )


def test_integers_round_away_and_minifloats_to_even():
    assert ROUNDING_OF_KIND == {
        Kind.INT: Rounding.HALF_AWAY,
        Kind.MINIFLOAT: Rounding.HALF_EVEN,
        Kind.FIELD: Rounding.HALF_AWAY,
    }


@pytest.mark.parametrize(("rule", "choice"), CHOICES)
@pytest.mark.parametrize(
    "spelled", [str, lambda choice: choice.value.upper(), lambda choice: choice]
)
def test_a_rule_is_given_by_its_name_or_its_member(rule, choice, spelled):
    numerics = Numerics(**{rule: spelled(choice)})
    assert getattr(numerics, rule) is choice


@pytest.mark.parametrize(("rule", "choice"), CHOICES + NUMBERS)
def test_numerics_survive_json_and_pickle(rule, choice):
    numerics = Numerics(**{rule: choice})
    assert Numerics.from_dict(json.loads(json.dumps(numerics.to_dict()))) == numerics
    assert pickle.loads(pickle.dumps(numerics)) == numerics
    assert hash(pickle.loads(pickle.dumps(numerics))) == hash(numerics)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("unknown", ["sideways", 3])
def test_an_unknown_choice_is_refused_with_those_that_exist(rule, unknown):
    first = next(iter(RULES[rule])).value
    with pytest.raises(SchemeError, match=f"{rule} requires one of {first}"):
        Numerics(**{rule: unknown})


@pytest.mark.parametrize("seed", [np.uint64(2**64 - 1), np.int8(3), 7])
def test_a_seed_is_kept_as_an_integer(seed):
    numerics = Numerics(seed=seed)
    assert type(numerics.seed) is int
    assert numerics.seed == int(seed)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "1", None])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(SchemeError, match=r"seed requires an integer from 0 to 2\*\*64 - 1, got"):
        Numerics(seed=seed)


@pytest.mark.parametrize("given", [1e-5, np.float64(1e-5), np.float32(1e-5)])
def test_a_smallest_scale_is_rounded_to_float32(given):
    assert Numerics(smallest_scale=given).smallest_scale == float(np.float32(1e-5))


def test_a_smallest_scale_of_negative_zero_is_zero():
    assert math.copysign(1, Numerics(smallest_scale=-0.0).smallest_scale) == 1


@pytest.mark.parametrize(
    "given", [-1e-5, math.nan, math.inf, 1e300, 1e-60, True, "1e-5", b"1", None, 1j, [1.0]]
)
def test_what_is_no_smallest_scale_is_refused(given):
    with pytest.raises(SchemeError, match="smallest_scale requires a finite float32"):
        Numerics(smallest_scale=given)


@pytest.mark.parametrize("given", [0, 1, None, "False", np.False_])
def test_zero_in_range_is_true_or_false(given):
    with pytest.raises(SchemeError, match="zero_in_range requires True or False"):
        Numerics(zero_in_range=given)


def test_a_near_miss_is_told_what_was_meant():
    with pytest.raises(SchemeError, match="did you mean 'half_even'"):
        Numerics(rounding="half_evn")


def test_an_unknown_rule_is_refused_by_name():
    with pytest.raises(SchemeError, match="got 'eps'"):
        Numerics.from_dict({"eps": 1e-5})


def test_rules_left_out_of_a_dictionary_take_their_default():
    assert Numerics.from_dict({"scale_from": "qmax"}) == Numerics(scale_from="qmax")


def test_non_default_rules_are_listed_by_name():
    assert Numerics().non_default() == {}
    assert Numerics(scale_from="floor").non_default() == {"scale_from": "floor"}
    assert Numerics(None, 3, smallest_scale=0.5, zero_in_range=False).non_default() == {
        "seed": "3",
        "smallest_scale": "0.5",
        "zero_in_range": "False",
    }
