"""Several machines: one training on all of them, or one study or data set shared among them.

machines     one of several machines that train as one
dask_runs    a study whose runs a Dask cluster makes
dask_crops   photographs that it crops
dask_client  a cluster, whose failures are one sentence each
"""
