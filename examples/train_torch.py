"""Quantization-aware training with torch: a small network that is used with 2-bit weights.

The network learns with weights that are rounded as they will be stored. The gradient passes
straight through the rounding, so that the optimizer moves the weights underneath. After training
the weights are quantized once, and the network keeps what it learned. One that learned without
rounding, and is rounded afterwards, loses some of it.
"""

import sys

try:
    import torch
except ImportError:
    print("this example requires torch")
    sys.exit()

import arrayq as aq

SCHEME = aq.scheme("q2s/32")
torch.manual_seed(0)
torch.set_num_threads(1)


def spirals(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of two spirals, and which of the two each is of."""
    kind = torch.arange(count) % 2
    turn = torch.rand(count).sqrt() * 9
    radius = turn / 9 + 0.02 * torch.randn(count)
    angle = turn + torch.pi * kind
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), kind


def lifted(points: torch.Tensor) -> torch.Tensor:
    """Waves of the points, for a network without biases to start from."""
    waves = points @ torch.randn(2, 32, generator=torch.Generator().manual_seed(1)) * 4
    return torch.cat([waves.sin(), waves.cos()], dim=1)


def network(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    for weight in weights[:-1]:
        x = torch.relu(x @ weight.T)
    return x @ weights[-1].T


def trained(*, rounded: bool) -> list[torch.Tensor]:
    shapes = ((64, 64), (64, 64), (2, 64))
    weights = [torch.nn.Parameter(torch.randn(shape) * (2 / shape[1]) ** 0.5) for shape in shapes]
    optimizer = torch.optim.Adam(weights, lr=3e-3)
    points, kind = spirals(2048)
    for step in range(301):
        used = [aq.fake_quantize(w, SCHEME) for w in weights] if rounded else weights
        loss = torch.nn.functional.cross_entropy(network(lifted(points), used), kind)
        if step in (0, 300):
            print(f"  loss after {step:3} steps: {loss.item():.4f}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [weight.detach() for weight in weights]


def accuracy(weights: list[torch.Tensor]) -> float:
    points, kind = spirals(1024)
    return (network(lifted(points), weights).argmax(dim=1) == kind).float().mean().item()


for way, rounded in (("trained as usual", False), ("trained with fake_quantize", True)):
    print(way)
    weights = trained(rounded=rounded)
    quantized = [aq.quantize(weight, SCHEME) for weight in weights]
    stored = [q.dequantize() for q in quantized]
    before, after = accuracy(weights), accuracy(stored)
    print(f"  accuracy in float32: {before:.3f}, quantized: {after:.3f}")

bits = sum(8 * q.nbytes for q in quantized) / sum(q.size for q in quantized)
print(f"stored as {SCHEME}: {bits:.2f} bits per weight")
assert after > 0.95, "the network lost what it learned"
