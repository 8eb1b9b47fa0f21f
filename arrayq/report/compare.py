"""Judge several schemes on one array."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from arrayq.pipeline import quantize
from arrayq.presets import scheme as parse_scheme
from arrayq.report.metrics import Metrics, measure
from arrayq.report.table import Table, figures_of
from arrayq.scheme import QuantScheme

__all__ = ["Comparison", "ComparisonRow", "compare"]


@dataclass(frozen=True)
class ComparisonRow(Metrics):
    """The metrics of one scheme."""

    scheme: str = ""


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found; ``str`` is a table, ``comparison["nvfp4"]`` one row."""

    shape: tuple[int, ...]
    dtype: str
    rows: tuple[ComparisonRow, ...]

    def __getitem__(self, scheme: str | QuantScheme) -> ComparisonRow:
        for row in self.rows:
            if row.scheme == str(scheme):
                return row
        raise KeyError(f"{scheme} was not compared; compared: {self._schemes()}")

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

    def _schemes(self) -> str:
        return ", ".join(row.scheme for row in self.rows)


def compare(
    w: np.ndarray,
    schemes: str | QuantScheme | Iterable[str | QuantScheme],
    *,
    threads: int | None = None,
) -> Comparison:
    """Quantize an array under each scheme and report size and error.

    Parameters
    ----------
    w : ndarray
        Floats of any width and shape.
    schemes : scheme, spelling, or iterable of them
        What to compare, for example ``["int8/row", "nvfp4"]``.
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
    SchemeError, UnsupportedSchemeError, LayoutError, ArrayTypeError, NonFiniteError
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
    single = isinstance(schemes, str | QuantScheme)
    asked: list[str | QuantScheme] = [schemes] if single else list(schemes)  # type: ignore[arg-type, list-item]
    parsed = [parse_scheme(each) for each in asked]
    rows = []
    for spelling, scheme in zip(asked, parsed, strict=True):
        metrics = measure(w, quantize(w, scheme, threads=threads), threads=threads)
        rows.append(ComparisonRow(**vars(metrics), scheme=str(spelling)))
    return Comparison(tuple(w.shape), str(w.dtype), tuple(rows))
