"""Quantized arrays and parameters as trees of JAX and torch."""

from __future__ import annotations

from typing import Any

import pytest
from transformation_cases import SCHEMES, assert_same_array, floats

import arrayq as aq


@pytest.mark.parametrize("name", SCHEMES)
def test_jax_takes_them_apart_and_puts_them_together(name: str) -> None:
    jax = pytest.importorskip("jax")
    q = aq.quantize(jax.numpy.asarray(floats()), SCHEMES[name])
    leaves, structure = jax.tree.flatten({"q": q, "p": q.qparams})
    again = jax.tree.unflatten(structure, leaves)
    assert_same_array(again["q"], q)
    assert again["p"].codebook == q.qparams.codebook
    assert len(jax.tree.leaves(q)) == sum(part is not None for part in q._parts())
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(q)]
    assert paths[:2] == [".data", ".scale_data"]
    assert jax.tree.structure(q) == jax.tree.structure(aq.quantize(q.dequantize(), q.scheme))
    assert jax.tree.structure(q) != jax.tree.structure(q.T)


@pytest.mark.parametrize("name", SCHEMES)
def test_torch_takes_them_apart_and_puts_them_together(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils import _pytree

    q = aq.quantize(torch.from_numpy(floats()), SCHEMES[name])
    leaves, structure = _pytree.tree_flatten([q, {"p": q.qparams}])
    assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
    again = _pytree.tree_unflatten(leaves, structure)
    assert_same_array(again[0], q)
    assert again[1]["p"].codebook == q.qparams.codebook
    assert _pytree.treespec_loads(_pytree.treespec_dumps(_pytree.tree_structure(q))) == (
        _pytree.tree_structure(q)
    )


def test_whatever_stands_for_a_leaf_is_kept() -> None:
    jax = pytest.importorskip("jax")
    q = aq.quantize(jax.numpy.asarray(floats()), "nvfp4")
    marked: Any = jax.tree.map(lambda _: object, q)
    assert isinstance(marked, aq.QuantizedArray)
    assert marked.data is object
    assert "nvfp4" in repr(marked)
