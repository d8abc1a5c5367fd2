"""Files beside Redis: secrets, staff passwords, places of addresses, and cells of CSV files."""
