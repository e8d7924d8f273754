"""Train, time, price and serve a fundus model: the library of the notebooks.

command      how a command of this library is typed where it runs
parameters   checks what a notebook is given for its parameters
errors       the base of what this library raises
files        writes a file whole or not at all, reads the CSV of a spreadsheet; locks
options      what several commands take: paths, amounts, a table's sheet and columns
numbers      writes numbers and intervals, in two languages
hardware     facts, plans, devices: what this machine is, how to train on it, and making that so
statistics   how sure a number is
data         photograph, labels, prepared: from photographs and a label table to batches
training     models, fit, metrics: one timed training
runs         makes rows: studies, their runner, what a run writes
report       from rows to a page: what is compared, tables, figures, the notebook around them
rooms        subjects beside the spine, found by name
"""

__version__ = "0.1.0"
