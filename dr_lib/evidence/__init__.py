"""Reads rows: tables in, tables out, nothing drawn.

select       what is timed, what is excluded and why, what may differ: once per analysis
claims       published claims held against rows
training_time  environments and modes: how fast, how well, and how many repetitions an answer needs
mnist        epochs of the CUDA study: time to accuracy, like held against like
predictions  anybody's predictions, read and checked for leaks
evaluation   how well they refer, by patient
checklist    items of the reporting guidelines and of the model card, and who fills them
serving      requests to a served model, what predictions cost, the cheapest endpoint
scaling      what more machines bring, and what a law predicts of more
scenarios    what runs cost by the formula against a bill; the cost of an accuracy
"""
