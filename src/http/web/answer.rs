//! Answers: a page, a way to another page, or a page that says why not.

use axum::body::Body;
use axum::response::IntoResponse;
use http::{HeaderValue, Response, StatusCode, header};
use maud::{Markup, html};

use super::super::admin::Refusal;
use super::layout;
use crate::store::StoreError;

/// A page.
pub(super) fn page(status: StatusCode, markup: Markup) -> Response<Body> {
    let mut response = Response::new(Body::from(markup.into_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Go there, by GET. `to` is a path of ours.
pub(super) fn see_other(to: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, to);
    response
}

/// Why there is no page.
#[derive(Debug)]
pub(super) struct Refused(Box<Response<Body>>);

impl Refused {
    /// A page that says it.
    pub(super) fn page(status: StatusCode, title: &str, why: &str) -> Self {
        let content = html! {
            h1 { (title) }
            p { (why) }
            p { a href="/" { "To the overview" } }
        };
        page(status, layout::bare(title, &content)).into()
    }
}

impl From<Response<Body>> for Refused {
    fn from(response: Response<Body>) -> Self {
        Self(Box::new(response))
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::page(refusal.status(), "This was refused", refusal.detail())
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Refusal::from(error).into()
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response<Body> {
        *self.0
    }
}
