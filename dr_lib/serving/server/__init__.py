"""The endpoint, and load tests of endpoints.

app        HTTP, in SageMaker's contract
server     the process: model, sockets, signals
process    a server in a process of its own
load       requests in a closed loop and in an open loop
"""
