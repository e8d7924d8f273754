"""The command line, python -m dr_lib COMMAND; --help lists the commands."""

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.options import Suite

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {  # in the order of the help, with the folder whose commands.py has them
    "probe": "training",
    "sample": "data",
    "prepare": "data",
    "split": "data",
    "verify": "data",
    "run": "runs",
    "plan": "runs",
    "report": "report",
    "evaluate": "evaluation",
    "export": "serving",
    "predict": "serving",
    "serve": "serving",
    "load": "serving",
    "price": "serving",
    "environments": "scenarios",
    "claims": "claims",
}
TARGETS = {  # of --on, before the colon: by command, the function that works there
    "run": {
        "colab": "dr_lib.remote.commands:run_on_service",
        "kaggle": "dr_lib.remote.commands:run_on_service",
        "dask": "dr_lib.cluster.dask_runs:run_on_cluster",
        "sagemaker": "dr_lib.serving.sagemaker.study:run_on_sagemaker",
    },
    "prepare": {"dask": "dr_lib.cluster.dask_crops:map_on_cluster"},
}


class Commands(click.Group):
    """The commands, each imported when it is used.

    They report an error in one sentence, or with --debug as a traceback.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        """List the names of all commands."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import a command from its module; None if there is no such command."""
        if name in COMMANDS:
            return getattr(import_module(f"dr_lib.{COMMANDS[name]}.commands"), name)
        return super().get_command(context, name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with all of their first sentences."""
        commands = [self.get_command(context, name) for name in COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl([(each.name, each.get_short_help_str(200)) for each in commands])

    def invoke(self, context: click.Context) -> object:
        """Run the command named on the command line."""
        try:
            return super().invoke(context)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            click.echo("stopped; repeat run or prepare to resume it", err=True)
            context.exit(130)
        except Exception as error:
            if context.params["debug"]:
                raise
            reason = str(error)
            if isinstance(error, OSError) and error.strerror:
                reason = ": ".join(filter(None, [error.filename, error.strerror]))
            elif not isinstance(error, (DrError, ValueError, RuntimeError, OSError)):
                again = write_command("--debug", context.invoked_subcommand, "...")
                reason = f"{type(error).__name__}: {error}; {again} shows the traceback"
            raise click.ClickException(reason) from error


@click.group(cls=Commands)
@click.option("--debug", is_flag=True, help="show tracebacks of errors")
@click.pass_context
def main(context: click.Context, debug: bool) -> None:
    """Train, time, price and serve a fundus model."""
    # progress is written there, and some schedulers close it
    sys.stderr = sys.stderr or open(os.devnull, "w")
    context.obj = Suite(ROOT, TARGETS)


if __name__ == "__main__":
    main()
