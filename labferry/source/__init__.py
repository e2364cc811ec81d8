"""What is at the source: which runs are on a share, what is in one, and is it done? Read only."""
