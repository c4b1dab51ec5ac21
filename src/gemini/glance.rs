//! One look at the API that tells three things: whether it answers as itself, whether it takes the
//! key, and what time it has.
//!
//! The list of models is asked for: every key may have it, it costs nothing, and what answers it is no
//! gateway's page. `Date` is cut to whole seconds and the answer takes a while, so only what neither
//! explains counts as a difference of clocks. What a cache has kept says how long, in `Age`.

use std::time::Duration;

use http::{HeaderMap, Method, header};
use serde_json::Value;

use super::client::HttpGemini;
use crate::base::clock::Timestamp;
use crate::domain::fault::Fault;

/// What a look saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// Our clock beside the API's; `None` when it did not say the time.
    pub clock: Option<Skew>,
    /// Why the list of models was not had.
    pub refused: Option<Fault>,
}

/// How two clocks stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skew {
    /// Nothing speaks against their being the same.
    None,
    /// Ours is ahead by at least this.
    Ahead(Duration),
    /// Ours is behind by at least this.
    Behind(Duration),
}

impl HttpGemini {
    /// Looks at the API once.
    ///
    /// # Errors
    /// There is no key, or nothing answers.
    pub async fn glance(&self) -> Result<Glance, Fault> {
        let url = self.base.join("models?pageSize=1")?;
        let asked = self.clock.now();
        let headers = Self::uncached();
        let answer = self
            .send(Method::GET, url, headers, None, Some(self.timeout))
            .await?;
        let clock = skew(answer.headers(), asked, self.clock.now());
        let refused = if answer.status().is_success() {
            self.read_body(answer).await.and_then(|b| read(&b)).err()
        } else {
            Some(self.refusal(answer).await)
        };
        Ok(Glance { clock, refused })
    }
}

fn read(body: &[u8]) -> Result<(), Fault> {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let models = body.as_ref().and_then(|b| b.get("models"));
    if models.is_some_and(Value::is_array) {
        return Ok(());
    }
    Err(Fault::Undecodable {
        what: "the list of models holds no list".to_owned(),
    })
}

fn skew(headers: &HeaderMap, asked: Timestamp, answered: Timestamp) -> Option<Skew> {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
    let date = jiff::fmt::rfc2822::parse(text(header::DATE)?).ok()?;
    let age: u64 = text(header::AGE)
        .and_then(|t| t.trim().parse().ok())
        .unwrap_or(0);
    let from =
        Timestamp::from_millis(date.timestamp().as_millisecond()).after(Duration::from_secs(age));
    let to = from.after(Duration::from_secs(1));
    Some(match (asked.since(to), from.since(answered)) {
        (Duration::ZERO, Duration::ZERO) => Skew::None,
        (Duration::ZERO, behind) => Skew::Behind(behind),
        (ahead, _) => Skew::Ahead(ahead),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_neither_rounding_nor_the_way_explains_is_a_difference() {
        let now: Timestamp = "2026-11-30T12:00:00.900Z".parse().unwrap();
        let of = |date: &str, age: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::DATE, date.parse().unwrap());
            if let Some(age) = age {
                headers.insert(header::AGE, age.parse().unwrap());
            }
            skew(&headers, now, now.after(Duration::from_millis(200)))
        };
        assert_eq!(of("Mon, 30 Nov 2026 12:00:00 GMT", None), Some(Skew::None));
        assert_eq!(of("Mon, 30 Nov 2026 12:00:01 GMT", None), Some(Skew::None));
        let ahead = Skew::Ahead(Duration::from_millis(60_900 - 1000));
        assert_eq!(of("Mon, 30 Nov 2026 11:59:00 GMT", None), Some(ahead));
        assert_eq!(
            of("Mon, 30 Nov 2026 11:59:00 GMT", Some("60")),
            Some(Skew::None)
        );
        let behind = Skew::Behind(Duration::from_millis(60_000 - 1100));
        assert_eq!(of("Mon, 30 Nov 2026 12:01:00 GMT", None), Some(behind));
        assert_eq!(of("noon", None), None);
        assert_eq!(skew(&HeaderMap::new(), now, now), None);
    }
}
