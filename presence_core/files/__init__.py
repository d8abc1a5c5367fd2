"""Files of an installation: secrets, staff passwords, places of addresses, and cells of CSV files."""
