"""Numerics are data with burn's rules as defaults."""

import json
import pickle

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
    TensorFrom,
)

RULES = {
    "rounding": Rounding,
    "scale_from": ScaleFrom,
    "scale_rounding": ScaleRounding,
    "tensor_from": TensorFrom,
    "calibration": Calibration,
}
CHOICES = [(rule, choice) for rule, choices in RULES.items() for choice in choices]


def test_the_defaults_are_those_of_burn():
    assert Numerics() == Numerics(
        rounding=None,
        scale_from=ScaleFrom.RANGE,
        scale_rounding=ScaleRounding.UP,
        tensor_from=TensorFrom.BLOCK_SCALES,
        calibration=Calibration.MINMAX,
    )


def test_integers_round_away_and_minifloats_to_even():
    assert ROUNDING_OF_KIND == {
        Kind.INT: Rounding.HALF_AWAY,
        Kind.MINIFLOAT: Rounding.HALF_EVEN,
    }


@pytest.mark.parametrize(("rule", "choice"), CHOICES)
@pytest.mark.parametrize(
    "spelled", [str, lambda choice: choice.value.upper(), lambda choice: choice]
)
def test_a_rule_is_given_by_its_name_or_its_member(rule, choice, spelled):
    numerics = Numerics(**{rule: spelled(choice)})
    assert getattr(numerics, rule) is choice


@pytest.mark.parametrize(("rule", "choice"), CHOICES)
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
