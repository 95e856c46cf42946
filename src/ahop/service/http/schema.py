"""What the routes say of themselves in OpenAPI."""

from typing import Any

ROWS = {"type": "array", "items": {"type": "array", "items": {"type": ["number", "null"]}}}
WORDS = {"type": "array", "items": {"type": ["string", "integer"]}}
IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
FLAG = {"type": "boolean", "default": False}


def _told(schema: dict[str, Any], words: str) -> dict[str, Any]:
    return {**schema, "description": words}


RECALL = {
    "queries": _told(ROWS, "rows of numbers, null where nothing was observed"),
    "k": _told({"type": "integer", "minimum": 1, "default": 1}, "how many answers to each query"),
    "where": _told({"type": "object"}, "columns and the values that they may have: only such rows are answered"),
    "groups": _told(WORDS, "where each query comes from, such as its device"),
    "same": _told(WORDS, "equal where queries have their origin in common: one answer for each entry"),
    "patterns": _told(FLAG, "answer the stored patterns too"),
    "columns": _told({"type": "array", "items": {"type": "string"}}, "answer what is known of the rows"),
    "explain": _told(FLAG, "say why each query is answered as it is"),
    "policy": _told({"type": "object"}, "accept_from, unknown_from, set_from: accept, ask a person, or unknown"),
}
ADD = {
    "patterns": _told(ROWS, "rows of numbers, null where nothing was observed"),
    "ids": _told(IDS, "their numbers; default those after the largest"),
    "metadata": _told({"type": "object"}, "the columns of the store, one entry for each pattern"),
}
CREATE = {name: ADD[name] for name in ("patterns", "metadata")}
LINK = {
    **{name: RECALL[name] for name in ("queries", "where", "groups")},
    "one_to_one": _told({"type": "boolean", "default": True}, "a stored pattern is the origin of one query at most"),
    "unmatched": _told({"type": "number"}, "share of the queries that come from none; default: estimated"),
}
DELETE = {"ids": _told(IDS, "numbers of the rows to forget")}
PAIRS = {
    "queries": _told(ROWS, "queries that a person has looked at"),
    "ids": _told(IDS, "the number of the row that each of them came from"),
    "groups": _told(WORDS, "where each query comes from"),
}
FIT = {
    "queries": _told(ROWS, "queries whose origins nobody knows, beside the pairs or alone"),
    "similarity": _told({"type": "string"}, 'what to learn; default "auto"'),
}


def body(fields: dict[str, Any], example: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a route takes."""
    schema = {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}},
        "responses": ERRORS,
    }


ERRORS = {
    "default": {
        "description": "What is wrong, and what to do about it.",
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
