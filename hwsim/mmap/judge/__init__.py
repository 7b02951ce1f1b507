"""Whether a layout keeps the rules; slow and obvious, and shares no code with what it judges."""
