"""The command that sets up the kernels of other frameworks."""

import click

from dr_lib.options import Suite


@click.command()
@click.argument("names", nargs=-1)
@click.pass_obj
def kernels(suite: Suite, names: tuple[str, ...]) -> None:
    """Set up Jupyter kernels for MXNet, PyTorch and JAX, each in its own environment in .kernels/.
    On a machine with a GPU, also add CUDA for TensorFlow to the current environment.
    """
    from concurrent.futures import ThreadPoolExecutor

    from dr_lib.hardware.facts import list_gpus
    from dr_lib.scenarios.kernels import KERNELS, KernelError, add_cuda, set_up

    has_gpu = bool(list_gpus())
    failures = []
    with ThreadPoolExecutor() as pool:  # each is a minute of pip
        ready = {
            name: pool.submit(set_up, name, suite.root / ".kernels", has_gpu=has_gpu)
            for name in names or KERNELS
        }
        if has_gpu and not names:
            ready["python3"] = pool.submit(add_cuda)
        for name, outcome in ready.items():
            try:
                click.echo(f"{name}: {outcome.result()}")
            except KernelError as error:
                failures.append(f"{name}: {error}")
    if failures:
        raise click.ClickException("\n".join(failures))
