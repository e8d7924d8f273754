"""Make rows: from a study file to one row per run, independent of the notebooks' content.

A study file lists factors and repetitions (`study`). The runner makes its runs (`runner`, the
command `run`), each by executing a notebook (`papermill`). Inside the notebook a `Run` (`run`) says
which run this is and ends in a row (`row`). The rows of all runs together are the table that
analyses call `runs`.

study      a study file, checked, and its runs in their order
backlog    the runs still to be made, and what they take
folder     a study's folder, for one process and one study
runner     makes the runs of a study, resumed where it stopped
papermill  one papermill process, and its error
jupyter    what that process does: a notebook in a kernel, and why a kernel died
run        one run, locked by one process
schema     the columns of a row
row        a row, checked, written and read
monitor    the machine sampled beside a training, by a process
prices     prices, and what runs cost
"""
