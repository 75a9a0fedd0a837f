"""JSON Schemas of tools, converted for the models of each provider."""

from plait.client.catalog.schemas.describe import ProviderSchema
from plait.client.catalog.schemas.for_provider import (
    PROFILES,
    Profile,
    inline_refs,
    schema_for_provider,
)
from plait.client.catalog.schemas.json_schema import shared_if_plain
from plait.client.catalog.schemas.parameters import (
    Parameter,
    convert_input_schema,
    parameters_from_schema,
    schema_from_parameters,
    to_json_schema,
)
from plait.client.config.raw_value import UNSET

__all__ = [
    "PROFILES",
    "UNSET",
    "Parameter",
    "Profile",
    "ProviderSchema",
    "convert_input_schema",
    "inline_refs",
    "parameters_from_schema",
    "schema_for_provider",
    "schema_from_parameters",
    "shared_if_plain",
    "to_json_schema",
]
