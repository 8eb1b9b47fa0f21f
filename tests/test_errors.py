"""Every error is an ArrayqError and the builtin that a caller would catch."""

import copy
import pickle

import pytest

from arrayq import errors

BUILTIN = {
    "ArgumentError": ValueError,
    "SchemeError": ValueError,
    "UnsupportedSchemeError": NotImplementedError,
    "QParamsError": ValueError,
    "CodebookError": ValueError,
    "LayoutError": ValueError,
    "NonFiniteError": ValueError,
    "ArrayTypeError": TypeError,
    "CodeError": ValueError,
    "CorruptFileError": ValueError,
}


def test_the_table_of_builtins_names_every_error():
    assert set(errors.__all__) == {"ArrayqError", *BUILTIN}


@pytest.mark.parametrize("name", BUILTIN)
def test_an_error_is_an_arrayq_error_and_the_builtin_that_fits(name):
    error = getattr(errors, name)
    assert issubclass(error, errors.ArrayqError)
    assert issubclass(error, BUILTIN[name])


def test_a_codebook_is_part_of_a_scheme_and_of_qparams():
    assert issubclass(errors.CodebookError, errors.SchemeError)
    assert issubclass(errors.CodebookError, errors.QParamsError)


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        *(
            lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
)
def test_a_non_finite_error_keeps_what_it_counted_when_it_is_pickled(duplicate):
    error = duplicate(errors.NonFiniteError("2 NaN", nan=2, inf=1, first_index=(0, 5)))
    assert type(error) is errors.NonFiniteError
    assert str(error) == "2 NaN"
    assert (error.nan, error.inf, error.first_index) == (2, 1, (0, 5))
