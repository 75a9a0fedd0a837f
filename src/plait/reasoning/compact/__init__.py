"""The compact profile: six tools over those of the full one, with short ids and results."""
