"""Support for notebooks: set up the machine, publish the address, render a report.

setup    adds what a cloud runtime lacks, checks parameters, says where it runs
publish  writes each notebook from its .py, and the repository's address wherever it stands
report   executes an analysis notebook and renders it to one HTML file
deposit  packs a study for an archive, so that others can make its report again
"""
