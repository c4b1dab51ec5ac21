//! Style, script and icon, compiled in.
//!
//! Each is served by a name that holds the hash of its content, so a browser may keep it for ever
//! and a new version of the program is a new name. Where the two scripts of htmx come from stands
//! beside them, in `assets/README.md`.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::response::IntoResponse;
use data_encoding::HEXLOWER;
use http::{HeaderValue, Response, header};
use sha2::{Digest, Sha256};

use super::super::error::Problem;

struct Asset {
    file: &'static str,
    kind: &'static str,
    text: &'static str,
    /// `page.1a2b3c4d5e6f.css`
    name: String,
}

static ALL: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let (script, style) = ("text/javascript; charset=utf-8", "text/css; charset=utf-8");
    [
        ("htmx.min.js", script, include_str!("assets/htmx.min.js")),
        (
            "htmx-sse.min.js",
            script,
            include_str!("assets/htmx-sse.min.js"),
        ),
        ("page.js", script, include_str!("assets/page.js")),
        ("page.css", style, include_str!("assets/page.css")),
        ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ]
    .map(|(file, kind, text)| {
        let digest = HEXLOWER.encode(&Sha256::digest(text));
        let (stem, ending) = file.rsplit_once('.').unwrap_or((file, ""));
        let name = format!("{stem}.{}.{ending}", digest.get(..16).unwrap_or_default());
        Asset {
            file,
            kind,
            text,
            name,
        }
    })
    .into()
});

/// Where the browser finds a file of ours.
pub(super) fn url(file: &str) -> String {
    let asset = ALL.iter().find(|asset| asset.file == file);
    asset.map_or_else(String::new, |asset| format!("/assets/{}", asset.name))
}

pub(super) async fn serve(Path(name): Path<String>) -> Response<Body> {
    let Some(asset) = ALL.iter().find(|asset| asset.name == name) else {
        return Problem::NOT_FOUND.into_response();
    };
    let mut response = Response::new(Body::from(asset.text));
    for (name, value) in [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ] {
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
