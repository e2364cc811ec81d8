"""The producer runs beside the instruments: scan, settle, record, publish."""
