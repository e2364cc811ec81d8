"""The operator's side: the `labferry` command and what it starts."""
