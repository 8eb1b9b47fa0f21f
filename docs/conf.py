"""Sphinx configuration of the arrayq documentation."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "arrayq"
author = "the arrayq authors"
copyright = "2026, the arrayq authors"
version = release = installed_version("arrayq")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "registry_tables",
    "namespace_tables",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_ext"]

html_theme = "furo"
html_title = f"arrayq {release}"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autosummary_generate = False  # numpydoc loads autosummary, and nothing here uses it
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Every example runs with these names. Pages write aq.quantize; docstrings may also write the name
# that they document without a prefix.
doctest_global_setup = """
from arrayq import *
import arrayq as aq
import numpy as np
from importlib.util import find_spec
def missing(name):
    return find_spec(name) is None
"""
doctest_test_doctest_blocks = "default"
