"""The command that sets up the environments of other frameworks."""

import click


@click.command()
@click.argument("names", nargs=-1)
def environments(names: tuple[str, ...]) -> None:
    """Set up environments for MXNet, PyTorch and JAX in .environments/, if this Python lacks them.
    On a machine with a GPU, also add CUDA for TensorFlow to the current environment.
    """
    from concurrent.futures import ThreadPoolExecutor

    from dr_lib.errors import DrError
    from dr_lib.hardware.facts import list_gpus
    from dr_lib.scenarios.environments import ENVIRONMENTS, add_cuda, set_up

    has_gpu = bool(list_gpus())
    failures = []
    with ThreadPoolExecutor() as pool:  # each is a minute of pip
        ready = {
            name: pool.submit(set_up, name, has_gpu=has_gpu) for name in names or ENVIRONMENTS
        }
        if has_gpu and not names:
            ready["tensorflow"] = pool.submit(add_cuda)
        for name, outcome in ready.items():
            try:
                click.echo(f"{name}: {outcome.result()}")
            except DrError as error:
                failures.append(f"{name}: {error}")
    if failures:
        raise click.ClickException("\n".join(failures))
