"""What a lender that looks at its own risk does about recourse."""
