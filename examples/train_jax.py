"""Quantization-aware training with JAX: a small network that is used with 2-bit weights.

The step is one jitted function: fake_quantize rounds the weights as they will be stored, and its
gradient passes straight through. After training the weights are quantized once, and the quantized
arrays go through jit like any other tree.
"""

import sys

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    print("this example requires jax")
    sys.exit()

from typing import Any

import arrayq as aq

SCHEME = aq.scheme("q2s/32")
WAVES = jax.random.normal(jax.random.key(1), (2, 32)) * 4

Weights = list[Any]


def spirals(key: Any, count: int) -> tuple[Any, Any]:
    """Points of two spirals, and which of the two each is of."""
    first, second = jax.random.split(key)
    kind = jnp.arange(count) % 2
    turn = jnp.sqrt(jax.random.uniform(first, (count,))) * 9
    radius = turn / 9 + 0.02 * jax.random.normal(second, (count,))
    angle = turn + jnp.pi * kind
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1), kind


def network(x: Any, weights: Weights) -> Any:
    x = jnp.concatenate([jnp.sin(x @ WAVES), jnp.cos(x @ WAVES)], axis=1)
    for weight in weights[:-1]:
        x = jax.nn.relu(x @ weight.T)
    return x @ weights[-1].T


def loss(weights: Weights, points: Any, kind: Any) -> Any:
    used = [aq.fake_quantize(weight, SCHEME) for weight in weights]
    likelihood = jax.nn.log_softmax(network(points, used))
    return -jnp.take_along_axis(likelihood, kind[:, None], axis=1).mean()


@jax.jit
def step(weights: Weights, slopes: Any, points: Any, kind: Any) -> Any:
    """Take a step of Adam without its corrections."""
    value, gradient = jax.value_and_grad(loss)(weights, points, kind)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, slopes[0], gradient)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, slopes[1], gradient)
    weights = jax.tree.map(
        lambda w, m, v: w - 3e-3 * m / (jnp.sqrt(v) + 1e-8), weights, first, second
    )
    return weights, (first, second), value


@jax.jit
def accuracy(quantized: list[aq.QuantizedArray], points: Any, kind: Any) -> Any:
    weights = [q.dequantize() for q in quantized]
    return (network(points, weights).argmax(axis=1) == kind).mean()


keys = jax.random.split(jax.random.key(0), 5)
shapes = ((64, 64), (64, 64), (2, 64))
weights: Weights = [
    jax.random.normal(key, shape) * (2 / shape[1]) ** 0.5
    for key, shape in zip(keys, shapes, strict=False)
]
zeros = jax.tree.map(jnp.zeros_like, weights)
slopes = (zeros, zeros)
points, kind = spirals(keys[3], 2048)
for count in range(301):
    weights, slopes, value = step(weights, slopes, points, kind)
    if count in (0, 300):
        print(f"loss after {count:3} steps: {value:.4f}")

quantized = [aq.quantize(weight, SCHEME) for weight in weights]
reached = accuracy(quantized, *spirals(keys[4], 1024))
bits = sum(8 * q.nbytes for q in quantized) / sum(q.size for q in quantized)
print(f"accuracy of the quantized network: {reached:.3f}")
print(f"stored as {SCHEME}: {bits:.2f} bits per weight")
assert reached > 0.95, "the network lost what it learned"
