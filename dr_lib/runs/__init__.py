"""Makes rows: from a study file to one row per run; knows nothing of what is inside a notebook.

study             a study file, checked, and its runs in their order
kernels           Jupyter kernels for frameworks that need an environment of their own
runner            makes the runs of a study, resumed where it stopped
cluster           makes them on many machines
papermill         one papermill process
progress          the bar that says how long is left
run               one run, held by one process
row               what a run says of itself, written and read
monitor, sampler  the machine sampled beside a training, by a process of its own
prices            prices, and what runs cost
estimate          what the rest of a study takes
"""
