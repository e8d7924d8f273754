"""From a trained model to an endpoint, the load that it holds, and its price: paper B.

grader       a model folder, and the bytes of a photograph -> an answer
export       Keras -> SavedModel, LiteRT, through an accuracy gate
server       the endpoint, in SageMaker's contract, and the load test
sagemaker    endpoints of AWS, made for a study and deleted
untrained    a model folder of a network without training, for size and time
costs        what a prediction costs by the hour's price, and the cheapest endpoint
figures      of notebook 23
parameters   of notebooks 21 to 23
"""
