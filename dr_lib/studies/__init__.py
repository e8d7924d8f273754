"""From a study file to a report; knows rows, never what is inside a notebook.

run          one run and its row
progress     the bar that says how long is left
study        a study file, run by papermill, resumed where it stopped
modes        a faster mode held against the paper's: how much faster, and whether its AUC lets it count
claims       published claims held against rows
figures      the papers' figures from rows
"""
