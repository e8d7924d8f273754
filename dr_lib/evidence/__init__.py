"""Read rows: from tables to tables, without drawing.

papers       the papers: which notebooks make and read the rows of each
select       what is timed, what is excluded and why, what may differ: once per analysis
rows         the rows of a paper's study, opened: what an analysis begins with
conditions   rows chosen by their values
claims       the papers' claims, an entry each
verdicts     what rows say of them
judged       their verdicts, counted
training_time  environments, sessions, modes, machines: how fast, how well, how many repetitions
energy       what the GPUs of a run counted, and what that emits
predictions  anybody's predictions, read and checked for leaks
evaluation   how well they refer, by patient
checklist    items of the reporting guidelines and of the model card, and who fills them
scenarios    what runs cost by the formula against a bill; the cost of an accuracy
"""
