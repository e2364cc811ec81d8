"""labferry: the domain that the producer, the workers and the operator's command share."""

__version__ = "0.1.0"
