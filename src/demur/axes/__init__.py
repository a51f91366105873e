"""The axes of a diff: one file per dimension that is compared."""
