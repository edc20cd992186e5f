"""What can a person reach? Legal values and rows, bounds of a model over boxes, proofs, integer programs.

Speaks of problems, rules and what a model is made of; methods, training, audits and explanations build on it and keep
no search of their own.
"""
