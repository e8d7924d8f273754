"""The command that meets a machine."""

import json
from pathlib import Path

import click

from dr_lib.options import PATH
from dr_lib.training.model_folder import replace_nan


@click.command()
@click.option("--train", is_flag=True, help="measure steps of modes plain, paper and fast")
@click.option("--model", default="mobilenet", show_default=True, help="network to train")
@click.option("--image-size", default=96, show_default=True, help="side of its input [px]")
@click.option("--batch-size", default=8, show_default=True, help="photographs of a step")
@click.option("--profile", type=PATH, help="folder for a trace of twenty steps of each mode")
def probe(
    train: bool, model: str, image_size: int, batch_size: int, profile: Path | None
) -> None:
    """Print what this machine has and how a training would use it, as JSON; with --train, what a
    step takes in each mode, on drawn photographs.
    """
    from tempfile import TemporaryDirectory

    from dr_lib.hardware import choose
    from dr_lib.hardware import probe as find_facts

    if not train:
        facts = find_facts()
        plan = choose(facts)
        found = {"machine": facts._asdict(), "plan": plan.describe(), "reasons": plan.reasons}
        click.echo(json.dumps(replace_nan(found), indent=1))
        return
    from dr_lib.data.prepared.sample import open_sample
    from dr_lib.training.contact import meet

    with TemporaryDirectory() as folder:
        data_dir = open_sample(Path(folder, "sample"), num_patients=60)
        asked = {"model": model, "image_size": image_size, "batch_size": batch_size}
        found = meet(data_dir, Path(folder), asked, profile)
    click.echo(json.dumps(replace_nan(found), indent=1))
