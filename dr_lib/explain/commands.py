"""The command that shows where a model looks on photographs of a list."""

from pathlib import Path

import click

from dr_lib.options import LANG, PATH


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--images",
    "listed",
    type=PATH,
    required=True,
    help="table with a column file, such as missed.csv of a private evaluation, or a file a line",
)
@click.option(
    "--folder", type=PATH, default=".", help="folder of these files  [default: this one]"
)
@click.option("--out", type=PATH, required=True, help="page to write, in a private folder")
@LANG
def explain(model: Path, listed: Path, folder: Path, out: Path, lang: str) -> None:
    """Show where the model of a training looks on each photograph of a list, on a private page."""
    from dr_lib.explain.page import write_explanations

    left_out = write_explanations(model, listed, folder, out, lang)
    for file, reason in left_out.items():
        click.echo(f"{file}: {reason}")
    click.echo(f"wrote {out}; it shows photographs of patients: keep it private")
