"""What predictions say about a model."""
