"""How much does labferry cost beside tools that only copy? `python -m benchmarks`."""
