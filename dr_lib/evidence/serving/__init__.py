"""A served model: what it answered, how fast, and for how much.

request_log  requests, written beside the row of their run and read back
costs        what a prediction costs by the hour's price
endpoint     the cheapest endpoint for so many requests a day
"""
