"""The command line, python -m dr_lib COMMAND; --help lists the commands."""

import errno
from importlib import import_module
from pathlib import Path

import click

from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.rooms import find_package, find_rooms

ROOT = Path(__file__).resolve().parents[1]
SPINE = {  # the spine's commands, and the modules that have them
    "sample": "dr_lib.data.commands",
    "prepare": "dr_lib.data.commands",
    "split": "dr_lib.data.commands",
    "verify": "dr_lib.data.commands",
    "run": "dr_lib.runs.commands",
    "plan": "dr_lib.runs.commands",
    "report": "dr_lib.report.commands",
}
ADVICE = {  # on what a disk refuses
    "EDQUOT": "your quota is used up: free some space",
    "EIO": "the disk or its connection failed: mount it again",
    "ENOSPC": "free some space",
    "ENOTCONN": "mount the disk again",
    "EROFS": "choose a folder that is not read-only",
    "ESTALE": "mount the disk again",
}


class Commands(click.Group):
    """The commands of the spine and of the rooms, each imported when it is used.

    They report an error in one sentence, or with --debug as a traceback.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        """List the names of all commands, those of the spine first."""
        return [name for commands in self._list_groups().values() for name in commands]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import a command from its module; None if there is no such command."""
        for commands in self._list_groups().values():
            if name in commands:
                return getattr(import_module(commands[name]), name)
        return super().get_command(context, name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, those of each room under its subject."""
        for heading, names in self._list_groups().items():
            commands = [self.get_command(context, name) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [(command.name, command.get_short_help_str(200)) for command in commands]
                )

    @staticmethod
    def _list_groups() -> dict[str, dict[str, str]]:
        """List the commands and their modules under the headings of the help."""
        groups = {"Prepare, train, report": SPINE}
        for name, room in find_rooms().items():
            if room.commands:
                module = f"{find_package(name)}.commands"
                groups[room.about] = dict.fromkeys(room.commands, module)
        return groups

    def invoke(self, context: click.Context) -> object:
        """Run the command named on the command line."""
        try:
            return super().invoke(context)
        except (click.Abort, click.exceptions.Exit):  # RuntimeErrors too
            raise
        except KeyboardInterrupt:
            resumes = context.invoked_subcommand in ("run", "prepare")
            click.echo(
                f"stopped{'; repeat the command to resume' if resumes else ''}", err=True
            )
            context.exit(130)
        except click.UsageError as error:
            if "unexpected extra argument" in error.message:
                error.message += ": put a path with spaces in quotes"
            raise
        except Exception as error:
            if context.params["debug"] or isinstance(error, click.ClickException):
                raise
            reason = str(error)
            if isinstance(error, OSError) and error.strerror:
                reason = ": ".join(filter(None, [error.filename, error.strerror]))
                if advice := ADVICE.get(errno.errorcode.get(error.errno)):
                    reason += f": {advice}, and repeat the command"
            elif not isinstance(error, (DrError, ValueError, RuntimeError, OSError)):
                again = write_command("--debug", context.invoked_subcommand, "...")
                reason = f"{type(error).__name__}: {error}; {again} shows the traceback"
            raise click.ClickException(reason) from error


@click.group(cls=Commands)
@click.option("--debug", is_flag=True, help="show tracebacks of errors")
@click.pass_context
def main(context: click.Context, debug: bool) -> None:
    """Train, time, price and serve a fundus model."""
    context.obj = ROOT


if __name__ == "__main__":
    main()
