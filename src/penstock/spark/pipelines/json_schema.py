"""The declaration as JSON Schema, for editors: `penstock pipeline check --schema`."""

from __future__ import annotations

from penstock.core.settings.json_schema import section_schema
from penstock.core.settings.kind import Json
from penstock.spark.pipelines.declaration import Pipeline, Trigger
from penstock.spark.pipelines.document import ONCE


def pipeline_schema() -> Json:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A declared pipeline of Penstock",
        **section_schema(Pipeline, {Trigger: {"enum": list(ONCE)}}),
    }
