"""Print the test files in which a run skipped something, from its JUnit report.

They are what is worth running again once more of what tests can use is installed.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def skipped_files(report: Path, root: Path) -> list[Path]:
    """Return files below `root` with a skipped test, or that were skipped as a whole."""
    found = set()
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            continue
        # A file that is skipped as a whole is a case of its own name and of no class.
        parts = (case.get("classname") or case.get("name") or "").split(".")
        files = (root.joinpath(*parts[:n]).with_suffix(".py") for n in range(len(parts), 0, -1))
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            raise FileNotFoundError(f"no file below {root} has the test {'.'.join(parts)}")
        found.add(file)
    return sorted(found)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: skipped_files.py REPORT ROOT")
    print(*skipped_files(Path(sys.argv[1]), Path(sys.argv[2])), sep="\n")
