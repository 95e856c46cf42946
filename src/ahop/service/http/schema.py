"""Descriptions of the routes in OpenAPI."""

from typing import Any

from ahop.service.request import Body, schema_of

ERRORS = {
    "default": {
        "description": "The error, and a hint where there is something to do about it.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"error": {"type": "string"}, "hint": {"type": "string"}},
                    "required": ["error"],
                }
            }
        },
    }
}


def body(kind: type[Body], example: str) -> dict[str, Any]:
    """Request body of a route."""
    content = {"application/json": {"schema": schema_of(kind), "example": example}}
    return {"requestBody": {"required": True, "content": content}, "responses": ERRORS}
