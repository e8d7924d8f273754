"""What predictions say about a model.

predictions  anybody's predictions, read and checked for leaks
flow         photographs and patients, from offered to evaluated
scores       scores over all thresholds, by patient
points       operating points: chosen, frozen, scored
curves       ROC, calibration, decisions
subgroups    cameras, ages ..., and counts too small to be shown
comparison   several models, several data sets
committee    the page that a committee reads and signs
checklist    items of the reporting guidelines and of the model card, and who fills them
figures      of notebook 12
parameters   of notebook 12
"""
