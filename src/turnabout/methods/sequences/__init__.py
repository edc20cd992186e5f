"""The parts of the search for action sequences: sequences, parameters, printing, certificates."""
