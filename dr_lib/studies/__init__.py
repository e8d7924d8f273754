"""From a study file to a report; knows rows, never what is inside a notebook.

study             a study file, checked, and its runs in their order
kernels           Jupyter kernels for frameworks that need an environment of their own
runner            makes the runs of a study, resumed where it stopped
fan_out           makes them on many machines
progress          the bar that says how long is left
run               one run, held by one process
rows              what runs say of themselves, written and read
monitor, sampler  the machine sampled beside a training, by a process of its own
cost              prices, and what runs cost
estimate          what the rest of a study takes
modes             a faster mode held against the paper's: how much faster, and whether its AUC lets it count
claims            published claims held against rows
figures           training time by hardware, and which rows are timed
scenario_figures  the factorial study, scenario by scenario
effect_figures    what its factors do
epochs            epochs of the CUDA study: time to accuracy, like held against like
cuda_figures      its figures 1a, 1b and 2
requests          requests to a served model, written and read; what a latency is
serving_cost      what predictions cost, and where the cheaper machine changes
serving_figures   time of a prediction, cost by rate, latency under load
runtime_figures   time by layer, and by set of instructions
serving_report    what the report of the serving paper holds
report            all of it on one page
"""
