"""Which features can turn a decision, and the principal reasons, checked against the plan."""
