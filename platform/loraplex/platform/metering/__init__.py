"""What a request used, written once."""
