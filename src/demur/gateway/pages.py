"""What do the gateway's own pages promise? Their OpenAPI description, which the gateway serves and its tests hold it to."""

from __future__ import annotations

from typing import Final

from demur._version import __version__

__all__ = ["OPENAPI"]

_ERROR: Final[dict[str, object]] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "code": {"type": "string"},
                "param": {"type": ["string", "null"]},
            },
        }
    },
}


def _json(schema: dict[str, object], description: str) -> dict[str, object]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _state(*words: str) -> dict[str, object]:
    return {
        "type": "object",
        "required": ["status"],
        "properties": {
            "status": {"enum": list(words)},
            "troubles": {"type": "array", "items": {"enum": ["draining", "store", "policy"]}},
        },
        "additionalProperties": False,
    }


OPENAPI: Final[dict[str, object]] = {
    "openapi": "3.1.0",
    "info": {"title": "Demur gateway", "version": __version__},
    "paths": {
        "/healthz": {
            "get": {
                "operationId": "alive",
                "summary": "Whether the process answers",
                "responses": {"200": _json(_state("ok"), "it does")},
            }
        },
        "/readyz": {
            "get": {
                "operationId": "ready",
                "summary": "Whether requests should be sent here",
                "responses": {
                    "200": _json(_state("ready"), "they should"),
                    "503": _json(_state("unready"), "they should not, and why"),
                },
            }
        },
        "/metrics": {
            "get": {
                "operationId": "figures",
                "summary": "Figures for Prometheus, over all workers",
                "responses": {
                    "200": {"description": "figures", "content": {"text/plain": {"schema": {"type": "string"}}}},
                    "404": _json(_ERROR, "figures are turned off"),
                },
            }
        },
        "/openapi.json": {
            "get": {
                "operationId": "description",
                "summary": "This description",
                "responses": {"200": _json({"type": "object", "required": ["openapi", "paths"]}, "it")},
            }
        },
    },
}
