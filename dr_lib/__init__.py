"""Train, time, price and serve a fundus model: the library behind the notebooks.

hardware     what this machine is; backend, strategy and precision for it
stats        intervals, ratios, bootstrap
data         synthetic, fundus, layouts, tables, records, prepare, batches: from photographs to Keras
training     models, fit, metrics: one timed training
studies      run, study, claims, figures: rows of runs, and what they say about a paper
"""
