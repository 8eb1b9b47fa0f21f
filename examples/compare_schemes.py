"""Compare schemes on weights with a few outlier columns, where the choice of blocks matters."""

import numpy as np

import arrayq as aq

generator = np.random.default_rng(0)
weights = generator.normal(0, 0.02, (256, 1024)).astype(np.float32)
weights[:, ::128] *= 20

by_hand = aq.QuantScheme().with_value("q4s").with_store("packed_u32").per_block([2, 16], "bf16")

schemes = ["int8/row", "int4/row", "int4/32", "nf4/64", "mxfp4", "nvfp4", by_hand]
print(aq.compare(weights, schemes))
