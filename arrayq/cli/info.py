"""``arrayq info``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from arrayq.checkpoint import SafetensorsReader, resolve
from arrayq.checkpoint.arrayq_layout import METADATA_KEY, read_index
from arrayq.cli import console
from arrayq.cli.options import file_argument, json_option
from arrayq.report.table import Table

__all__ = ["info"]


@dataclass(frozen=True, slots=True)
class _Line:
    """What is told about one tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str | None
    scheme: str | None
    elements: int
    nbytes: int

    @property
    def bits_per_element(self) -> float:
        return 8 * self.nbytes / self.elements if self.elements else 0.0

    def cells(self) -> tuple[str, ...]:
        return (
            console.printable(self.name),
            "x".join(map(str, self.shape)) or "one number",
            self.dtype or "",
            self.scheme or "",
            f"{self.elements:,}",
            f"{self.nbytes:,}",
            f"{self.bits_per_element:.3f}",
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "scheme": self.scheme,
            "elements": self.elements,
            "bytes": self.nbytes,
            "bits_per_element": self.bits_per_element,
        }


@click.command()
@file_argument
@json_option
def info(file: str, as_json: bool) -> None:
    """List the tensors of FILE: names, shapes, types, schemes and bits per element.

    The type is the one a tensor has, or had before it was quantized.
    """
    with SafetensorsReader(resolve(file)) as reader:
        lines = _lines(reader)
        metadata = {key: text for key, text in reader.metadata.items() if key != METADATA_KEY}
    if as_json:
        console.print_json(
            {
                "file": file,
                "bytes": reader.nbytes,
                "metadata": metadata,
                "tensors": [line.to_dict() for line in lines],
            }
        )
        return
    elements = sum(line.elements for line in lines)
    total = _Line("total", (), None, None, elements, sum(line.nbytes for line in lines))
    name, _, *cells = total.cells()
    headings = ("tensor", "shape", "type", "scheme", "elements", "bytes", "bits/element")
    rows = (*(line.cells() for line in lines), (name, "", *cells))
    console.print_table(Table(headings, rows, text_columns=4, names=0))


def _lines(reader: SafetensorsReader) -> list[_Line]:
    index = read_index(reader)
    parts = {name for tensor in index.values() for name, _, _ in tensor.parts()}
    kept = [
        _Line(name, entry.shape, entry.dtype.name, None, entry.size, entry.nbytes)
        for name, entry in reader.entries.items()
        if name not in parts
    ]
    quantized = [
        _Line(name, tensor.shape, tensor.dtype, tensor.spelling, tensor.size, tensor.nbytes)
        for name, tensor in index.items()
    ]
    return quantized + kept
