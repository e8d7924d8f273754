"""Real-time endpoints of SageMaker.

endpoint    sends requests to one, by its name
account     the user's account: what it must have, and what it says when it refuses
deployment  one endpoint, made and deleted again, each step in a ledger on disk
study       a study with an endpoint for each run
"""
