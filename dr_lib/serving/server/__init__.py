"""The endpoint, and the load put on one.

app        HTTP, in SageMaker's contract
server     the process: model, sockets, signals
load       requests in a closed loop and in an open loop
sagemaker  an endpoint of SageMaker, by its name
"""
