"""Asked in an environment with the real clients: does their code take these calls, devices and
files? No network.
"""

import argparse
import importlib
import inspect
import json
import os
import re
import sys
from contextlib import nullcontext
from types import SimpleNamespace

os.environ |= {"HOME": os.getcwd(), "KAGGLE_USERNAME": "somebody", "KAGGLE_KEY": "none"}
import typer
from colab_cli.cli import app
from colab_cli.commands.session import _format_session_line, resolve_runtime_options
from colab_cli.consumption import ConsumptionUserInfo, format_consumption_status
from kaggle import api, cli
from kaggle.api.kaggle_api_extended import _RETIRED_ACCELERATORS
from requests.exceptions import HTTPError
from slugify import slugify

about = json.load(sys.stdin)
colab = typer.main.get_command(app)
parser = argparse.ArgumentParser()
for option in (
    "-W",
    "--version",
):  # as in the client's own main, which builds its parser itself
    parser.add_argument(option, action="store_true")
groups = parser.add_subparsers(dest="command")
for add in (cli.parse_datasets, cli.parse_kernels, cli.parse_config, cli.parse_quota):
    add(groups)
for name, *arguments in about["calls"]:
    if name == "colab":
        if arguments[0] == "--config":
            assert any("--config" in option.opts for option in colab.params)
            del arguments[:2]
        given = colab.commands[arguments[0]].make_context(arguments[0], arguments[1:]).params
        assert arguments[0] != "exec" or given["timeout"] > 30, given
    else:
        given = vars(parser.parse_args(arguments))
        assert not given.get("public") and ("no_confirm" not in given or given["no_confirm"]), (
            given
        )
for options in about["colab"]:  # the client takes each for itself, not for a default
    asked = dict([options]) if options else {}
    found = resolve_runtime_options(asked.get("--gpu"), asked.get("--tpu"))[1].value
    assert found == (options[1].upper() if options else "NONE"), (options, found)
assert not {name.lower() for name in about["kaggle"]} & _RETIRED_ACCELERATORS.keys()


class Sent(Exception):
    """What would be sent has passed the client's own checks."""


def take(request):
    """Take a request in place of the service."""
    raise Sent(request)


def catch(function, *arguments):
    """The request that a function of the client makes."""
    try:
        function(*arguments)
    except Sent as sent:
        return sent.args[0]


datasets = SimpleNamespace(dataset_api_client=SimpleNamespace(create_dataset=take))
kernels = SimpleNamespace(kernels_api_client=SimpleNamespace(save_kernel=take))
api.build_kaggle_client = lambda: nullcontext(
    SimpleNamespace(kernels=kernels, datasets=datasets)
)
request = catch(api.kernels_push, about["folder"], "3600", "TpuV5E8")
assert (
    request.is_private
    and request.enable_tpu
    and not request.enable_gpu
    and request.machine_shape == "TpuV5E8"
)
assert (
    not request.docker_image
    and not request.docker_image_pinning_type
    and request.session_timeout_seconds == 3600
)
assert slugify(request.new_title) == request.slug.partition("/")[2]
assert request.dataset_data_sources == ["somebody/dr-0-data"]


def is_unknown(name):
    """No such data set is there yet."""
    raise HTTPError(name)


api.dataset_status = is_unknown
api.upload_files = lambda *arguments: None
assert catch(api.dataset_create_new, about["folder"]).is_private

line = _format_session_line("dr-colab-t4", "m-s-1", "T4", "GPU")
assert re.search(r"^\[dr-colab-t4\].*?Hardware: (\w+)", line)[1] == "T4"
user = ConsumptionUserInfo(
    paid_compute_units_balance=9.5, consumption_rate_hourly=1.76, assignments_count=1
)
assert format_consumption_status(user).startswith(
    "Current balance: 9.50 compute units\nUsage rate: 1.76/hr\n"
)
for module, sentence in about["sentences"]:  # that ours read
    assert sentence in inspect.getsource(importlib.import_module(module)), sentence
