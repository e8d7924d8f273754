"""The command that sets up the environments of other frameworks."""

import click


@click.command()
@click.argument("names", nargs=-1)
def environments(names: tuple[str, ...]) -> None:
    """Set up environments for MXNet, PyTorch and JAX in .environments/, if this Python lacks
    them.
    """
    from dr_lib.errors import DrError
    from dr_lib.hardware.facts import list_gpus
    from dr_lib.scenarios.environments import ENVIRONMENTS, set_up

    failures = []
    for name in names or ENVIRONMENTS:
        try:
            click.echo(f"{name}: {set_up(name, has_gpu=bool(list_gpus()))}")
        except DrError as error:
            failures.append(f"{name}: {error}")
    if failures:
        raise click.ClickException("\n".join(failures))
