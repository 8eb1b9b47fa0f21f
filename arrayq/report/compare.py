"""Judge several schemes on one array."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from arrayq.array import QuantizedArray
from arrayq.capability import require
from arrayq.errors import NonFiniteError, SchemeError
from arrayq.hosting import floats_on_host
from arrayq.namespaces import located
from arrayq.pipeline import quantize
from arrayq.presets import scheme as parse_scheme
from arrayq.report.metrics import Metrics, measure
from arrayq.report.table import Table, figures_of
from arrayq.scheme import QuantScheme

__all__ = ["Comparison", "ComparisonRow", "compare"]


@dataclass(frozen=True)
class ComparisonRow(Metrics):
    """The metrics of one scheme, given as ``str(scheme)``."""

    scheme: str = ""


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found; ``str`` is a table, ``comparison["nvfp4"]`` one row."""

    shape: tuple[int, ...]
    dtype: str
    rows: tuple[ComparisonRow, ...]
    schemes: tuple[QuantScheme, ...]

    def __getitem__(self, scheme: str | QuantScheme) -> ComparisonRow:
        """Return the row of a scheme, however it is spelled."""
        try:
            return self.rows[self.schemes.index(parse_scheme(scheme))]
        except ValueError as error:  # SchemeError, where nothing is spelled like that, is one
            compared = ", ".join(row.scheme for row in self.rows)
            raise KeyError(f"{scheme} was not compared; compared: {compared}") from error

    def __str__(self) -> str:
        figures = figures_of(self.rows)
        return str(
            Table(
                ("scheme", *(figure.title for figure in figures)),
                tuple(
                    (row.scheme, *(f.write(getattr(row, f.attribute)) for f in figures))
                    for row in self.rows
                ),
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON types."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype,
            "rows": [row.to_dict() for row in self.rows],
        }


def compare(
    w: Any,
    schemes: str | QuantScheme | Iterable[str | QuantScheme],
    *,
    threads: int | None = None,
) -> Comparison:
    """Quantize an array under each scheme and report size and error.

    Parameters
    ----------
    w : array
        Floats of any width, shape and library. What is on another device is copied to CPU memory,
        what is lazy is computed: a table of numbers is asked for.
    schemes : scheme, spelling, or iterable of them
        What to compare, for example ``["int8/row", "nvfp4"]``. One that is given twice, under
        whatever spelling, is compared once.
    threads : int, optional
        How many threads the kernels may use, as in :func:`arrayq.quantize`.

    Returns
    -------
    Comparison
        One row per scheme, in the order given: elements, bits per element (scales included),
        SQNR in dB (10 log10(sum x^2 / sum (x - y)^2), inf when exact), largest absolute
        error, saturated elements, blocks of zeros, and elements that decode to no finite
        value.

    Raises
    ------
    NonFiniteError
        If `w` holds NaN or infinities: what they become has no error that could be measured.
    SchemeError, UnsupportedSchemeError, LayoutError, ArrayTypeError
        As :func:`arrayq.quantize` does.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> w = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64)
    >>> comparison = aq.compare(w, ["int8/row", "nvfp4"])
    >>> comparison["nvfp4"].bits_per_element
    4.5078125
    >>> comparison["int8/row"].sqnr_db > comparison["nvfp4"].sqnr_db
    True
    """
    parsed = _parsed(schemes)
    here = located(w)
    for scheme in parsed:
        require(here.profile, scheme, "compare", here.dtype)
    host = floats_on_host(here)
    rows = []
    for scheme in parsed:
        metrics = measure(host, _quantized(host, scheme, threads), threads=threads)
        rows.append(ComparisonRow(**vars(metrics), scheme=str(scheme)))
    return Comparison(host.shape, here.dtype, tuple(rows), parsed)


def _parsed(schemes: Any) -> tuple[QuantScheme, ...]:
    """Return the schemes, each once, in the order given."""
    if isinstance(schemes, str | QuantScheme):
        schemes = (schemes,)
    if not isinstance(schemes, Iterable):
        raise SchemeError(
            f"schemes requires a scheme, a spelling, or an iterable of them, got {schemes!r}"
        )
    return tuple(dict.fromkeys(parse_scheme(each) for each in schemes))


def _quantized(w: np.ndarray, scheme: QuantScheme, threads: int | None) -> QuantizedArray:
    try:
        return quantize(w, scheme, threads=threads)
    except NonFiniteError as error:
        raise NonFiniteError(
            f"compare requires finite numbers, got {error.nan} NaN and {error.inf} infinities, the"
            f" first at index {error.first_index}; compare a part without them, or replace them",
            nan=error.nan,
            inf=error.inf,
            first_index=error.first_index,
        ) from error
