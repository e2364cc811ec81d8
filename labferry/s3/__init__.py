"""The object store on S3."""
