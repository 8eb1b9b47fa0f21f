"""Print one of the commands that README.md tells its readers to run.

A command stands in a fenced block below a comment that names it::

    <!-- command: setup -->
    ```sh
    the command, on one line
    ```
"""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCK = re.compile(r"<!-- command: (?P<name>\w+) -->\n```sh\n(?P<command>.*?)\n```", re.DOTALL)


def readme_commands(readme: Path = README) -> dict[str, str]:
    """Return the named commands of a README file, in the order in which they stand."""
    text = readme.read_text(encoding="utf-8")
    return {match["name"]: match["command"] for match in BLOCK.finditer(text)}


if __name__ == "__main__":
    commands = readme_commands()
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: readme_command.py NAME; README.md has {', '.join(commands)}")
    print(commands[sys.argv[1]])
