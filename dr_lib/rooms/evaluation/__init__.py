"""What predictions say about a model.

predictions  anybody's predictions, read and checked for leaks
evaluation   how well they refer, by patient
checklist    items of the reporting guidelines and of the model card, and who fills them
figures      of notebook 12
"""
