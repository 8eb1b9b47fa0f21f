"""Run the command line: ``python -m arrayq``."""

from arrayq.cli import main

if __name__ == "__main__":
    main()
