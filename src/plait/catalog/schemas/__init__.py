"""JSON Schemas of tools, shaped for the models that read them."""

from plait.catalog.schemas.parameters import (
    Parameter,
    convert_input_schema,
    parameters_from_schema,
    schema_from_parameters,
    to_json_schema,
)
from plait.catalog.schemas.refs import inline_refs
from plait.catalog.schemas.shape import PROFILES, Profile, shape_schema
from plait.catalog.schemas.shaped import Shaped
from plait.config.given import UNSET

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
