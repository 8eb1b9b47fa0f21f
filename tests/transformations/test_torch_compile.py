"""torch.compile with fullgraph=True: what comes out equals eager, bit for bit.

Most tests stop before a backend generates code, which takes seconds each; those at the end do not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from transformation_cases import SCHEMES, assert_same, assert_same_array, floats

import arrayq as aq

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _compiled_anew() -> None:
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], backend: Any = "aot_eager", **options: Any) -> Any:
    return torch.compile(function, fullgraph=True, backend=backend, **options)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tensor(*shape: int) -> Any:
    return torch.from_numpy(floats(*shape))


def assert_equal(got: Any, expected: Any) -> None:
    if isinstance(expected, aq.QuantizedArray):
        assert_same_array(got, expected)
    elif isinstance(expected, list | tuple):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_equal(one, other)
    else:
        assert_same(got, expected)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_function_equals_eager(name: str) -> None:
    scheme, x = SCHEMES[name], tensor()
    other = x * 0.5
    p = aq.calibrate(x, scheme)

    def everything(x: Any, other: Any, p: Any) -> Any:
        q = aq.quantize(x, scheme)
        found = aq.calibrate(x, scheme)
        return (
            q,
            aq.dequantize(q),
            aq.quantize(other, scheme, qparams=found),
            aq.quantize(other, scheme, qparams=p),
            aq.fake_quantize(x, scheme),
            aq.fake_quantize(other, scheme, qparams=p),
            q.codes(),
            found.scale,
        )

    assert_equal(compiled(everything)(x, other, p), everything(x, other, p))


def test_arrays_go_in_and_come_out_in_containers() -> None:
    def function(given: dict[str, Any]) -> dict[str, Any]:
        first, (second, x) = given["first"], given["rest"]
        return {
            "product": first.dequantize() @ x,
            "kept": [second],
            "made": aq.quantize(x, "nvfp4"),
        }

    given = {
        "first": aq.quantize(tensor(), "nvfp4"),
        "rest": (aq.quantize(tensor(), SCHEMES["zero points"]), tensor(96, 32)),
    }
    got, expected = compiled(function)(given), function(given)
    assert_same(got["product"], expected["product"])
    assert_same_array(got["kept"][0], expected["kept"][0])
    assert_same_array(got["made"], expected["made"])


def test_arrays_of_a_closure_and_of_a_module() -> None:
    weight, x = aq.quantize(tensor(8, 96), "nvfp4"), tensor()

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: Any) -> Any:
            return x @ self.weight.dequantize().T

    expected = x @ weight.dequantize().T
    assert_same(compiled(lambda x: x @ weight.dequantize().T)(x), expected)
    assert_same(compiled(Layer())(x), expected)


MOVES: dict[str, Callable[[Any], Any]] = {
    "permute_dims": lambda q: aq.permute_dims(q, (1, 0)),
    "T": lambda q: q.T,
    "mT": lambda q: q.mT,
    "moveaxis": lambda q: aq.moveaxis(q, 0, 1),
    "swapaxes": lambda q: q.swapaxes(0, 1),
    "slices": lambda q: q[1:3, ::-1],
    "an integer": lambda q: q[-1],
    "a list": lambda q: q[[2, 0]],
    "an ellipsis and a new axis": lambda q: q[..., None, :],
    "take": lambda q: aq.take(q, torch.tensor([3, 1]), axis=0),
    "flip": lambda q: aq.flip(q, 1),
    "expand_dims": lambda q: aq.expand_dims(q, 0),
    "squeeze": lambda q: aq.squeeze(aq.expand_dims(q, 0)),
    "broadcast_to": lambda q: aq.broadcast_to(q, (2, 4, 96)),
    "reshape": lambda q: q.reshape(2, 2, 96),
    "concat": lambda q: aq.concat([q, q], axis=0),
    "stack": lambda q: aq.stack([q, q]),
    "split": lambda q: aq.split(q, 2, 0),
    "unstack": lambda q: aq.unstack(q),
    "roll": lambda q: aq.roll(q, 1, 0),
    "tile": lambda q: aq.tile(q, (2, 1)),
    "repeat": lambda q: q.repeat(2, 0),
    "copy": lambda q: q.copy(),
    "rows": lambda q: [row.dequantize() for row in q],
    "argmax": lambda q: q.argmax(1),
    "max": lambda q: aq.max(q),
    "sort": lambda q: q.sort(),
    "comparison": lambda q: q >= 0.5,
    "arithmetic": lambda q: (q + 1) * 2 - abs(q),
    "requantize": lambda q: q.requantize("int8/row"),
    "attributes": lambda q: aq.dequantize(q).reshape(q.shape[1], len(q)) * q.ndim * q.size,
    "scale": lambda q: q.scale,
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_equal_eager(name: str) -> None:
    move = MOVES[name]
    for scheme in ("int4/32", "nvfp4") if name not in ("concat", "stack") else ("int4/32",):
        q = aq.quantize(tensor(), scheme)
        torch._dynamo.reset()
        assert_equal(compiled(move, "eager")(q), move(q))


def test_positions_may_be_tensors() -> None:
    q, rows = aq.quantize(tensor(), "int8/row"), torch.tensor([3, 1])
    assert_equal(compiled(lambda q, rows: q[rows])(q, rows), q[rows])


def test_each_shape_and_each_scheme_is_compiled_once() -> None:
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    function = compiled(lambda x, scheme: aq.quantize(x, scheme), backend)
    for _ in range(2):
        for rows, scheme in ((4, "nvfp4"), (8, "nvfp4"), (8, "int8/row"), (2, aq.mxfp8())):
            x = tensor(rows, 96)
            assert_equal(function(x, scheme), aq.quantize(x, scheme))
    assert len(graphs) == 4


def test_lengths_that_are_marked_dynamic_become_static() -> None:
    function = compiled(lambda x: aq.quantize(x, "int8/row")[: x.shape[0] // 2], dynamic=True)
    for rows in (4, 8):
        x = tensor(rows, 96)
        assert_equal(function(x), aq.quantize(x, "int8/row")[: rows // 2])


def test_more_shapes_than_the_limit_are_refused_by_torch() -> None:
    function = compiled(lambda x: aq.quantize(x, "int8/row"), "eager")
    with torch._dynamo.config.patch(recompile_limit=2):
        for rows in (2, 3):
            function(tensor(rows, 8))
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            function(tensor(4, 8))


def test_what_must_see_values_is_refused() -> None:
    with pytest.raises(Exception, match="nonfinite='raise' requires values that can be seen"):
        compiled(lambda x: aq.quantize(x, "nvfp4", nonfinite="raise"))(tensor())


def test_nan_propagates() -> None:
    x = tensor()
    x[0, 0] = torch.nan
    got = compiled(lambda x: aq.quantize(x, "int4/32"))(x)
    assert_equal(got, aq.quantize(x, "int4/32", nonfinite="propagate"))
    assert np.isnan(np.asarray(got.dequantize())).sum() == 32


def test_refusals_keep_their_words() -> None:
    with pytest.raises(Exception, match="requires blocks that stay rectangles"):
        compiled(lambda q: q.reshape(3, 128))(aq.quantize(tensor(), "int8/row"))


def test_the_gradient_is_that_of_eager() -> None:
    x = tensor().requires_grad_()
    p = aq.calibrate(x.detach() / 2, "int4/32")

    def loss(x: Any) -> Any:
        return (aq.fake_quantize(x, "int4/32", qparams=p) ** 2).sum()

    (expected,) = torch.autograd.grad(loss(x), x)
    (got,) = torch.autograd.grad(compiled(loss)(x), x)
    assert_same(got, expected)
    assert 0 < (expected == 0).sum() < expected.numel()


def test_gradients_of_batches() -> None:
    batch = tensor(3, 4, 32)
    function = torch.func.vmap(torch.func.grad(lambda x: (aq.fake_quantize(x, "nvfp4") ** 2).sum()))
    assert_same(compiled(function)(batch), function(batch))


# Code is generated.


@pytest.mark.parametrize("name", ["integers of rows", "packed integers, ragged", "two levels"])
def test_generated_code_equals_eager(name: str) -> None:
    scheme, x = SCHEMES[name], tensor()
    with one_thread():
        assert_equal(
            compiled(lambda x: aq.quantize(x, scheme), "inductor")(x), aq.quantize(x, scheme)
        )


def test_generated_code_of_part_of_an_array_equals_eager() -> None:
    # blocks that do not divide what is kept of the array
    q = aq.quantize(tensor(16, 128), "int8/64")
    with one_thread():
        got = compiled(lambda q: q.dequantize()[:, :96] + 1, "inductor")(q)
    assert_same(got, q.dequantize()[:, :96] + 1)
