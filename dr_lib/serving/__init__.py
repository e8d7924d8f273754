"""From a trained model to an endpoint, the load that it holds, and its price: paper B.

grader       a model folder, and the bytes of a photograph -> an answer
export       Keras -> SavedModel, LiteRT, through an accuracy gate
server       the endpoint, in SageMaker's contract, and the load test
untrained    a model folder of a network without training, for size and time
request_log  requests, written beside the row of their run and read back
costs        what a prediction costs by the hour's price
endpoint     the cheapest endpoint for so many requests a day
figures      of notebooks 22 and 23
parameters   of notebooks 21 to 23
"""
