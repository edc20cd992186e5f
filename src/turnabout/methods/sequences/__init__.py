"""The parts of the search for action sequences: words, parameters, printing, certificates."""
