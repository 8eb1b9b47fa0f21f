"""Quantize an array, look at the result, and judge what was lost."""

import numpy as np

import arrayq as aq

weights = np.random.default_rng(0).normal(0, 0.02, (256, 1024)).astype(np.float32)

quantized = aq.quantize(weights, "nvfp4")
restored = aq.dequantize(quantized)

noise = restored.astype(np.float64) - weights
signal_to_noise = 10 * np.log10(np.square(weights, dtype=np.float64).sum() / np.square(noise).sum())

print(quantized)
print(f"bytes: {weights.nbytes} -> {quantized.nbytes}")
print(f"bits per element: {quantized.bits_per_element:.3f}")
print(f"SQNR: {signal_to_noise:.2f} dB, largest error: {np.abs(noise).max():.6f}")
