"""Train, time, price and serve a fundus model: the library behind the notebooks.

bootstrap    adds the packages that a cloud runtime lacks
hardware     facts, plans, devices: what this machine is, how to train on it, and making that so
stats        intervals, ratios, bootstrap
data         synthetic, fundus, layouts, tables, records, prepare, batches: from photographs to Keras
training     models, fit, metrics: one timed training
studies      run, study, modes, claims, figures: rows of runs, and what they say about a paper
"""
