"""Several machines: one training on all of them, or one study shared among them."""
