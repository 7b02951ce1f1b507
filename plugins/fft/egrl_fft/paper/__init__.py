"""The TAG paper: what is run, the numbers, its claims, the report; its searches have a clock of their own."""
