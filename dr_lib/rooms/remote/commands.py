"""Run a study in a session of Colab or Kaggle."""

import sys
from functools import partial
from pathlib import Path

import click


def run_on_service(study: Path, root: Path, on: str, *, yes: bool, **options) -> list[str]:
    """Run a study in a session, once the user has agreed to the upload.

    Args, and what is returned, are those of `session.run_on_service`, besides:
        yes: the user has agreed already.
    """
    from dr_lib.rooms.remote import session

    return session.run_on_service(
        study, root, on, confirm=partial(_confirm, yes), say=click.echo, **options
    )


def _confirm(yes: bool, what: str) -> None:
    """Print what will be uploaded and ask for confirmation."""
    click.echo(f"will upload {what}")
    if not yes and not sys.stdin.isatty():
        raise click.ClickException("no terminal to ask for confirmation: add --yes to upload")
    if not yes:
        click.confirm("upload?", abort=True)
