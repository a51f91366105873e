"""Training of what ships: reads the labelled sets, writes the packs. No part of the installed package."""
