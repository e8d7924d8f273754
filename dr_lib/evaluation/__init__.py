"""Evaluate predictions by patient, of this project's models or of any other.

table        read one file of predictions, and refuse what would make an evaluation wrong
predictions  several of them: models, data sets, folds, ensembles
scores       AUC, kappa, Brier score, calibration, decisions
points       operating points, frozen and scored, and whom they miss
comparison   models on the same patients, and on other data sets
groups       the flow, and groups of patients, without small counts
figures      of notebook 12
answer       what the report says first, and the card of facts
committee    the page for an ethics committee
commands     evaluate
parameters   of notebook 12
"""
