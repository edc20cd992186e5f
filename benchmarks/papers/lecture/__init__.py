"""Parts of the benchmark on local explanations and the risks of recourse."""
