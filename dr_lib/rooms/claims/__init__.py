"""What rows say about the papers' claims."""
