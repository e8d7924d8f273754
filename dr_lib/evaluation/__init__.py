"""Evaluate predictions by patient, of this project's models or of any other.

table        read one file of predictions, and refuse what would make an evaluation wrong
predictions  several of them: models, data sets, folds, ensembles
scores       AUC, kappa, Brier score, and what other tables are made of
points       operating points, frozen and scored
comparison   models on the same patients, and on other data sets
curves       calibration and decisions
groups       the flow, and groups of patients, without small counts
errors       the worst errors, and the patients who are missed
figures      of notebook 12
answer       what the report says first
committee    the page for an ethics committee
card         the facts of an evaluation
commands     evaluate
parameters   of notebook 12
"""
