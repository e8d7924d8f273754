"""What rows say about the papers' claims.

claims    the papers' claims, an entry each
verdicts  what rows say of them
page      what a report shows of them
"""
