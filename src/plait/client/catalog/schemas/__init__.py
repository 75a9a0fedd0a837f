"""JSON Schemas of tools, shaped for the models that read them."""

from plait.client.catalog.schemas.for_provider import PROFILES, Profile, shape_schema
from plait.client.catalog.schemas.parameters import (
    Parameter,
    convert_input_schema,
    parameters_from_schema,
    schema_from_parameters,
    to_json_schema,
)
from plait.client.catalog.schemas.provider_schema import Shaped
from plait.client.catalog.schemas.refs import inline_refs
from plait.client.config.raw_value import UNSET

__all__ = [
    "PROFILES",
    "UNSET",
    "Parameter",
    "Profile",
    "Shaped",
    "convert_input_schema",
    "inline_refs",
    "parameters_from_schema",
    "schema_from_parameters",
    "shape_schema",
    "to_json_schema",
]
