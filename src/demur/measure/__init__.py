"""What the figures are: counts in, rates with their intervals out; nothing here reads, prints or draws at random."""
