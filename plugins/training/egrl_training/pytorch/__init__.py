"""What PyTorch compiles, within a limit of memory: capture, plans, their judge, and the steps that run by them."""
