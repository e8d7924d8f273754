"""A network in CUDA C, and its reference in Keras: paper D."""
