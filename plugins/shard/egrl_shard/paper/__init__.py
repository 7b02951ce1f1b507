"""The sharding contest of ASPLOS / EuroSys 2025: what is run, the numbers, the report."""
