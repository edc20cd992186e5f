"""The attack: random problems, judged by an oracle that shares no code with the library.

columns, frames      what a column holds, and tables built as a user builds the training table
deciders, zoo        models of every library, fitted on such tables, and what the original says
constraints, costs   rules, regions, equations and costs, computed a second time by hand
worlds, questions    a seed -> a table and a model; a seed -> what is asked about it
grids                all rows that a person can reach, by brute force
oracle, plans        what is wrong with an answer
attack, files        ask the library, in Python and on the command line
planted              faults put into true answers, each of which the oracle must see
run                  all of it on all cores: make fuzz SECONDS=600 SEED=1, make fuzz ONE=<seed>

Modules of the judge (columns, frames, constraints, costs, grids, oracle, plans) do not import turnabout.
"""
