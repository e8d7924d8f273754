"""Real-time endpoints of SageMaker.

endpoint  sends requests to one, by its name
"""
