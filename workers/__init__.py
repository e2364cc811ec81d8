"""The workers run beside the bucket: upload, verify, complete, sweep."""
