"""What offering recourse does to the risk of a lender, and to people."""
