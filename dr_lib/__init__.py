"""Train, time, price and serve a fundus model: the library of the notebooks.

Public names: `from dr_lib import ...` has all that training on own photographs needs; each name
is loaded when it is used, and `dr_lib.NAME?` shows an example.

photograph   crop_fundus, encode_jpeg, decode_jpeg
prepared     prepare, Prepared, open_sample
hardware     probe, choose, Request, activate
training     TrainingConfig, train_once, build_model
runs         Run, Monitor, run_study, read_runs
report       open_rows, Page, groups, plot_training_time, plot_throughput, plot_history,
             answer_training

The folders, from the ground up (docs/architecture.md):

command, errors, files, markdown, numbers, options, parameters, processes   single files
hardware     facts, plans, devices: what this machine is, how to train on it, and making that so
statistics   how sure a number is
data         from photographs and a label table to batches
training     one timed training
runs         from a study file to rows
report       from rows to a page

Beside this core, subjects that import it and no other:

claims, cluster, evaluation, explain, mnist, remote, scenarios, serving
"""

__version__ = "0.2.0"

_MODULES = {  # the module of each public name
    "crop_fundus": "data.photograph.crop",
    "decode_jpeg": "data.photograph.pixels",
    "encode_jpeg": "data.photograph.pixels",
    "prepare": "data.prepared.prepare",
    "Prepared": "data.prepared.folder",
    "open_sample": "data.prepared.sample",
    "probe": "hardware.facts",
    "choose": "hardware.plans",
    "Request": "hardware.plans",
    "activate": "hardware.devices",
    "TrainingConfig": "training.config",
    "train_once": "training.train_once",
    "build_model": "training.models",
    "Run": "runs.run",
    "Monitor": "runs.monitor",
    "run_study": "runs.runner",
    "read_runs": "runs.row",
    "open_rows": "report.rows",
    "Page": "report.page",
    "groups": "report.groups",
    "plot_training_time": "report.figures",
    "plot_throughput": "report.figures",
    "plot_history": "report.figures",
    "answer_training": "report.answer",
}
__all__ = list(_MODULES)


def __getattr__(name):
    """Load a public name where it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'dr_lib' has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"dr_lib.{_MODULES[name]}")
    value = getattr(home, name, home)  # groups is a module
    globals()[name] = value
    return value


def __dir__():
    """List the names for tab completion."""
    return sorted({*globals(), *__all__})
