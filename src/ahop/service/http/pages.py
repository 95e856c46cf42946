"""Pages for people: one to ask with, one that lists the routes. They need nothing from elsewhere."""

from html import escape
from pathlib import Path
from typing import Any

from starlette.responses import Response

# What a browser may be sent without a key, which the page asks for; by path, the file and what it is.
FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "code,pre{font:14px/1.4 ui-monospace,monospace;background:#f3f3f3;border-radius:4px}"
    "code{padding:.1rem .3rem}pre{padding:.7rem;overflow:auto}h2{font-size:1.05rem;margin-top:2rem}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}code,pre{background:#2a2a2a}}"
)


def page_file(path: str) -> Response:
    """One of `FILES`."""
    name, kind = FILES[path]
    return Response((Path(__file__).parent / "page" / name).read_bytes(), headers=HEADERS, media_type=kind)


def routes_page(schema: dict[str, Any]) -> str:
    """The routes of an OpenAPI description, each with what it takes."""
    parts = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            parts.append(f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(route.get('description', route.get('summary', '')))}</p>")
            content = route.get("requestBody", {}).get("content", {}).get("application/json", {})
            fields = content.get("schema", {}).get("properties", {})
            rows = "".join(
                f"<li><code>{escape(name)}</code> {escape(field.get('description', ''))}</li>"
                for name, field in fields.items()
            )
            parts.append(f"<ul>{rows}</ul>" if rows else "")
            if "example" in content:
                parts.append(f"<pre>{escape(str(content['example']))}</pre>")
    title = escape(schema["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f'<h1>{title}</h1><p>The same for machines: <a href="openapi.json">openapi.json</a>.</p>{"".join(parts)}</html>'
    )
