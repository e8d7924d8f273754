"""From rows to a page: read them, draw them, and the notebook that does both.

papers       the papers: which notebooks make and read the rows of each
conditions   rows chosen by their values
groups       rows grouped by work, stack and hardware; what counts; means and ratios of groups
rows         the rows of a paper's study, opened: what an analysis begins with
energy       what the GPUs of a run counted, and what that emits
style        colours, words in two languages, number formats, panels
means        means with their intervals, beside published ones
figures      training time by hardware
page         what an analysis notebook shows: figures, tables, claims, and their files
setup        adds what a cloud runtime lacks, checks parameters, says where it runs
render       executes an analysis notebook and renders it to one HTML file
parameters   of notebook 11, and those that all analyses have
"""
