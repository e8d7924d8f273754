"""Reads rows: tables in, tables out, nothing drawn.

claims          published claims held against rows
modes           a faster mode held against the paper's: how much faster, and whether its AUC lets it count
epochs          epochs of the CUDA study: time to accuracy, like held against like
request_log     requests to a served model, written and read; what a latency is
bill            what runs cost by the formula against a bill; the cost of an accuracy
serving_cost    what predictions cost, and where the cheaper machine changes
serving_report  what the report of the serving paper holds
report          all of it on one page
"""
