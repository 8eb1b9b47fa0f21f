"""The program: its commands, and how errors become one line on stderr."""

from __future__ import annotations

import errno
from typing import Any

import click

import arrayq
from arrayq._kernels import chosen_level
from arrayq.checkpoint.termination import unwinding
from arrayq.cli import INTERRUPTED
from arrayq.cli.capabilities import capabilities
from arrayq.cli.compare import compare
from arrayq.cli.console import printable
from arrayq.cli.dequantize import dequantize
from arrayq.cli.doctor import doctor
from arrayq.cli.info import info
from arrayq.cli.quantize import quantize
from arrayq.errors import ArrayqError

__all__ = ["program", "run"]


class _Failure(click.ClickException):
    """An error that is the user's to deal with: one line, no traceback, exit code 1."""

    def show(self, file: Any = None) -> None:
        """Print the line."""
        click.echo(f"arrayq: error: {printable(self.message)}", err=True, file=file)


class _Program(click.Group):
    """A group whose commands may raise arrayq's errors and those of the system."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ArrayqError as error:
            raise _Failure(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader left: click ends quietly
                raise
            named = f"{error.filename}: " if error.filename is not None else ""
            raise _Failure(f"{named}{error.strerror or error}") from error
        except MemoryError as error:
            raise _Failure("the memory of this machine does not suffice") from error
        except KeyboardInterrupt:
            click.echo("arrayq: interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(arrayq.__version__, prog_name="arrayq", message="%(prog)s %(version)s")
def program() -> None:
    """Turn model weights into small codes plus scales, and back.

    FILE is a safetensors file: a path, or pkg:PACKAGE/PATH for a file that an installed Python
    package ships, as in pkg:wordllama/weights/l2_supercat_256.safetensors.
    """
    chosen_level()  # an ARRAYQ_ISA that cannot be obeyed is refused before any work


for _command in (quantize, compare, dequantize, info, capabilities, doctor):
    program.add_command(_command)


def run() -> None:
    """Run the program; SIGTERM cleans up before it ends the process."""
    with unwinding():
        program(prog_name="arrayq")
