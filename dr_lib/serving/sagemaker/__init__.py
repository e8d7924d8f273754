"""Real-time endpoints of SageMaker.

account     the user's account: what it must have, what it says when it refuses, and its endpoints
deployment  one endpoint, made and deleted again, each step in a ledger on disk
study       a study with an endpoint for each run
"""
