"""Train, time, price and serve a fundus model: the library behind the notebooks.

bootstrap    adds the packages that a cloud runtime lacks
hardware     facts, plans, devices: what this machine is, how to train on it, and making that so
stats        intervals, ratios, bootstrap
effects      what the factors of a designed experiment do
data         synthetic, fundus, layouts, tables, records, prepare, batches: from photographs to Keras
training     models, graders, fit, metrics: one timed training
serving      export, app, server, load: from a trained model to an endpoint, and what it holds
cuda         mnist: a small network trained in CUDA C, on a GPU or a CPU
studies      study, runner, run, rows, monitor, cost, claims, report: runs, and what they say about a paper
"""
