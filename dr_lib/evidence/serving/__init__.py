"""A served model: its requests, response times and costs.

request_log  requests, written beside the row of their run and read back
costs        what a prediction costs by the hour's price
endpoint     the cheapest endpoint for so many requests a day
"""
