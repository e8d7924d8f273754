"""The command that writes a report."""

from pathlib import Path

import click

from dr_lib.options import LANG, PARAMETERS, PATH, Suite


@click.command()
@click.argument("folders", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, help="folder to write  [default: the first folder]")
@click.option(
    "--notebook",
    default="",
    help="analysis notebook  [default: the study's, or the one that reads its rows]",
)
@LANG
@PARAMETERS
@click.pass_obj
def report(
    suite: Suite,
    folders: tuple[Path, ...],
    out: Path | None,
    notebook: str,
    lang: str,
    parameters: tuple,
) -> None:
    """Run the analysis notebook on the rows below the folders, and write report.html with its
    figures and tables.
    """
    from dr_lib.report.render import write_report

    choice = {"notebook": notebook, "lang": lang, **dict(parameters)}
    page = write_report(folders, out or folders[0], suite.root, **choice)
    click.echo(
        f"wrote {page}, its figures (PNG, PDF, SVG), tables (CSV, LaTeX), and runs.csv next to it"
    )
