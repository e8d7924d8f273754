"""Several machines: one study or data set shared among them.

dask_runs    a study whose runs a Dask cluster makes
dask_crops   photographs that it crops
dask_client  a cluster, whose failures are one sentence each
"""
