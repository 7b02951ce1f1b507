"""Whether a partition keeps the rules; slow and obvious, and shares no code with what it judges."""
