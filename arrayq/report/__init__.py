"""Judge what quantization did.

=================  ================================================================
module             what it holds
=================  ================================================================
``metrics.py``     :class:`Metrics`, sums that merge; :func:`measure` fills them
``parts.py``       cuts a quantized array into pieces of bounded size
``table.py``       which figures a report shows, and tables as text
``fitting.py``     the same tables where room is short
``compare.py``     :func:`compare`: several schemes on one array
=================  ================================================================
"""

from arrayq.report.compare import Comparison, ComparisonRow, compare
from arrayq.report.metrics import Metrics, measure
from arrayq.report.table import Table

__all__ = ["Comparison", "ComparisonRow", "Metrics", "Table", "compare", "measure"]
