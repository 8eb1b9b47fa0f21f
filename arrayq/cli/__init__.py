"""The command line ``arrayq``; ``python -m arrayq`` is the same.

==================  ==================================================================
module              what it holds
==================  ==================================================================
``app.py``          the program: its commands, and how errors become one line
``options.py``      arguments and options that several commands share
``console.py``      tables, JSON and the progress bar
``quantize.py`` …   one module per command; a new command is a new row in ``app.py``
==================  ==================================================================
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["main"]

_NEEDED = ("click", "rich")

INTERRUPTED: Final = 130
"""What a shell reports for a program that SIGINT ended."""


def main() -> None:
    """Run the program with the arguments of the process."""
    try:
        from arrayq.cli.app import run

        run()
    except KeyboardInterrupt:
        print("arrayq: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        sys.exit(
            f"arrayq: error: the command line requires {' and '.join(_NEEDED)}, and {missing}"
            " is not installed; run: pip install 'arrayq[cli]'"
        )
