"""torch.export, fake tensors and tensors without memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformation_cases import SCHEMES, assert_same, assert_same_array, floats

import arrayq as aq

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = aq.quantize(torch.from_numpy(floats(8, 96)), "nvfp4")

    def forward(self, x: Any) -> Any:
        return aq.fake_quantize(x, "int8/row") @ self.weight.dequantize().T


class Quantize(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return aq.quantize(x, "nvfp4")


class Dequantize(torch.nn.Module):
    def forward(self, q: Any) -> Any:
        return q.T.dequantize()


@pytest.mark.parametrize("strict", [False, True])
def test_exported_programs_are_saved_and_loaded(strict: bool, tmp_path: Path) -> None:
    x = torch.from_numpy(floats())
    for module, given in (
        (Layer(), x),
        (Quantize(), x),
        (Dequantize(), aq.quantize(x, "nvfp4")),
    ):
        program = torch.export.export(module, (given,), strict=strict)
        torch.export.save(program, tmp_path / "program.pt2")
        loaded = torch.export.load(tmp_path / "program.pt2").module()
        for form in (program.module(), loaded):
            got, expected = form(given), module(given)
            if isinstance(expected, aq.QuantizedArray):
                assert_same_array(got, expected)
            else:
                assert_same(got, expected)


@pytest.mark.parametrize("name", SCHEMES)
def test_tensors_without_values_have_the_shapes_of_those_with(name: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    expected = aq.quantize(torch.from_numpy(floats()), SCHEMES[name])
    with FakeTensorMode():
        fake = aq.quantize(torch.empty(4, 96), SCHEMES[name])
        assert isinstance(fake.data, FakeTensor)
        assert fake.dequantize().shape == (4, 96)
    meta = aq.quantize(torch.empty(4, 96, device="meta"), SCHEMES[name])
    assert meta.device == torch.device("meta")
    assert meta.T.dequantize().shape == (96, 4)
    for made in (fake, meta):
        assert (made.shape, made.scheme) == (expected.shape, expected.scheme)
        for got, other in zip(made._parts(), expected._parts(), strict=True):
            assert (got is None) == (other is None)
            if got is not None:
                assert (got.shape, got.dtype) == (other.shape, other.dtype)


def test_checkpoints_of_torch_are_loaded_without_trust(tmp_path: Path) -> None:
    for name, scheme in SCHEMES.items():
        q = aq.quantize(torch.from_numpy(floats()), scheme)
        torch.save({name: q[1:3]}, tmp_path / "file.pt")
        loaded = torch.load(tmp_path / "file.pt", weights_only=True)
        assert_same_array(loaded[name], q[1:3])
