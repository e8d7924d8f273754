"""Read rows: from tables to tables, without drawing.

papers       the papers: which notebooks make and read the rows of each
select       what is timed, what is excluded and why, what may differ: once per analysis
rows         the rows of a paper's study, opened: what an analysis begins with
conditions   rows chosen by their values
judged       the verdicts on claims, counted
training_time  environments, sessions, modes, machines: how fast, how well, how many repetitions
energy       what the GPUs of a run counted, and what that emits
"""
