"""Several machines: one training on all of them, or one study shared among them.

machines   one of several machines that train as one
dask_runs  a study whose runs a Dask cluster makes
"""
