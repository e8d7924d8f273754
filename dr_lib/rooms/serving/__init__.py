"""From a trained model to an endpoint, its load and its price: paper B."""
