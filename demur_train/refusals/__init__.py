"""Training of the refusal pack: grammar → phrases → features of the product itself → weights → packs/refusals.json."""
