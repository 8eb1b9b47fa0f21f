"""Build an ONNX model that quantizes its input to NVFP4 and to int8, and run it.

ndonnx records the operations of arrayq's generic path as a graph. The model needs nothing of
arrayq: any ONNX runtime makes the same codes and scales, bit for bit.
"""

import importlib.util
import sys

import numpy as np

import arrayq as aq

SHAPE = (6, 128)
SCHEMES = ("nvfp4", "int8/row")
PARTS = ("data", "scale_data", "tensor_scale")


def model_of(scheme: str) -> bytes:
    """Return an ONNX model with an input "x" and one output for each part of the result."""
    import ndonnx as ndx

    x = ndx.argument(shape=SHAPE, dtype=ndx.float32)
    q = aq.quantize(x, scheme)
    outputs = {name: part for name in PARTS if (part := getattr(q, name)) is not None}
    return ndx.build({"x": x}, outputs).SerializeToString()


def main() -> None:
    missing = [name for name in ("ndonnx", "onnxruntime") if not importlib.util.find_spec(name)]
    if missing:
        print(f"nothing to do: this example needs {' and '.join(missing)}")
        return
    import onnxruntime

    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    for scheme in SCHEMES:
        model = model_of(scheme)
        session = onnxruntime.InferenceSession(model)
        names = [output.name for output in session.get_outputs()]
        expected = aq.quantize(x, scheme)
        print(f"{scheme}: a model of {len(model):,} bytes")
        for name, part in zip(names, session.run(None, {"x": x}), strict=True):
            same = np.array_equal(part, getattr(expected, name))
            print(f"  {name} {part.dtype}{part.shape}: {'equal' if same else 'DIFFERENT'}")
            if not same:
                sys.exit(f"{scheme} differs from NumPy in {name}")


if __name__ == "__main__":
    main()
