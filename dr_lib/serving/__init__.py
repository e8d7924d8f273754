"""From a trained model to an endpoint and the load that it holds.

grader     a model folder, and the bytes of a photograph -> an answer
export     Keras -> SavedModel, LiteRT, ONNX, through an accuracy gate
server     the endpoint, in SageMaker's contract, and the load test
untrained  a model folder of a network that nobody trained, for size and time
"""
