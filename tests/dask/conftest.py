"""Put this folder on the module search path: tests are imported by their path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
