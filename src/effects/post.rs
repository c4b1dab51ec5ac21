//! One POST, and what its answer means.
//!
//! Shared by every effect that speaks HTTP. What an attempt ends in:
//!
//! | what happened | delivery | because |
//! |---|---|---|
//! | 2xx | done | the status decides; the body is drained to a bound and ignored |
//! | 3xx | retry | never followed; a moved sink must not lose the effect |
//! | 410 | refused | the receiver says that it is gone for good |
//! | other 4xx, 1xx | retry | a wrong token or a deploy gone wrong; effects are given up by age |
//! | 408, 425, 429, 500, 503, … | retry | not before `Retry-After` |
//! | 502, 504 | ambiguous | somebody in between answered; the receiver itself may have acted |
//! | refused address, name unknown, no connection, TLS failure | retry | nothing has left yet |
//! | time-out or lost connection after the request began | ambiguous | it may have arrived |
//!
//! Every attempt opens its own connection. A kept-alive connection that the other side closes at
//! the moment of sending looks like a lost answer, so keeping none makes "ambiguous" rarer, and the
//! address is judged anew each time. The connect limit is half the total, so that a silent network
//! is told apart from a silent receiver.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{StatusCode, redirect, retry};
use url::Url;

use super::guard::{self, Refused};
use crate::base::clock::Timestamp;
use crate::domain::effect::Delivery;

/// How much of an answer's body is read.
const MAX_ANSWER: usize = 64 * 1024;
/// Longest time to wait for a connection, TLS included.
const MAX_CONNECT: Duration = Duration::from_secs(10);
/// Longest `Retry-After` that is believed.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// Sends single requests under the guard.
#[derive(Debug, Clone)]
pub(super) struct Post {
    client: reqwest::Client,
    allow_private: bool,
}

impl Post {
    /// A sender whose attempts take at most `timeout`.
    pub(super) fn new(allow_private: bool, timeout: Duration) -> Result<Self, String> {
        let client = reqwest::Client::builder()
            .user_agent(concat!("hookledger/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .dns_resolver(guard::Resolver { allow_private })
            .pool_max_idle_per_host(0)
            .connect_timeout((timeout / 2).min(MAX_CONNECT))
            .timeout(timeout)
            .build()
            .map_err(|_| "the HTTP client could not be built".to_owned())?;
        Ok(Self {
            client,
            allow_private,
        })
    }

    /// Makes one attempt.
    pub(super) async fn send(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        now: Timestamp,
    ) -> Delivery {
        let judged = url
            .host()
            .map(|host| guard::judge_host(&host, self.allow_private));
        match judged {
            Some(Ok(())) => {}
            Some(Err(refused)) => return retry(refused.to_string()),
            None => return retry("the URL has no host".to_owned()),
        }
        let request = self.client.post(url.clone()).headers(headers).body(body);
        match request.send().await {
            Ok(mut response) => {
                let delivery = of_answer(response.status(), response.headers(), now);
                drain(&mut response).await;
                delivery
            }
            Err(error) => of_failure(&error.without_url()),
        }
    }
}

fn retry(why: String) -> Delivery {
    Delivery::Retry { after: None, why }
}

fn of_answer(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Delivery {
    let code = status.as_u16();
    if status.is_success() {
        return Delivery::Done;
    }
    match code {
        410 => Delivery::Refused {
            why: "the receiver answered 410: gone for good".to_owned(),
        },
        502 | 504 => Delivery::Ambiguous {
            why: format!("a gateway answered {code} for the receiver"),
        },
        300..=399 => retry(format!(
            "the receiver answered {code}: redirects are not followed"
        )),
        _ => Delivery::Retry {
            after: retry_after(headers, now),
            why: format!("the receiver answered {code}"),
        },
    }
}

/// `Retry-After`, in seconds or as a date, at most a day.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let in_seconds = text.parse().ok().map(Duration::from_secs);
    let asked = in_seconds.or_else(|| {
        let at = jiff::fmt::rfc2822::DateTimeParser::new()
            .parse_timestamp(text)
            .ok()?;
        Some(Timestamp::from_millis(at.as_millisecond()).since(now))
    })?;
    Some(asked.min(MAX_RETRY_AFTER))
}

/// Reads the answer's body to its end or the bound, so that the other side can finish writing. The
/// status has decided already: whatever happens here changes nothing.
async fn drain(response: &mut reqwest::Response) {
    let mut read = 0;
    while read < MAX_ANSWER {
        match response.chunk().await {
            Ok(Some(chunk)) => read += chunk.len(),
            Ok(None) | Err(_) => return,
        }
    }
}

fn of_failure(error: &reqwest::Error) -> Delivery {
    if let Some(refused) = find::<Refused>(error) {
        return retry(refused.to_string());
    }
    if error.is_builder() {
        return retry("the request could not be built".to_owned());
    }
    if error.is_connect() {
        let why = if error.is_timeout() {
            "no connection in time"
        } else {
            "no connection (unknown name, refused, or TLS failure)"
        };
        return retry(why.to_owned());
    }
    let why = if error.is_timeout() {
        "no answer in time"
    } else {
        "the connection was lost before an answer came"
    };
    Delivery::Ambiguous {
        why: why.to_owned(),
    }
}

/// The first error of that type among an error's causes.
fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        next = current.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(784_111_777_000); // 1994-11-06T08:49:37Z

    fn answer(code: u16, retry_after: Option<&str>) -> Delivery {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        of_answer(StatusCode::from_u16(code).unwrap(), &headers, NOW)
    }

    #[test]
    fn each_status_has_its_row() {
        for code in [200, 201, 202, 204, 299] {
            assert_eq!(answer(code, None), Delivery::Done, "{code}");
        }
        for code in [
            301, 302, 307, 308, 400, 401, 403, 404, 405, 408, 409, 413, 425, 429, 500, 503,
        ] {
            assert!(
                matches!(answer(code, None), Delivery::Retry { .. }),
                "{code}"
            );
        }
        for code in [502, 504] {
            assert!(
                matches!(answer(code, None), Delivery::Ambiguous { .. }),
                "{code}"
            );
        }
        assert!(matches!(answer(410, None), Delivery::Refused { .. }));
    }

    #[test]
    fn a_wait_that_is_asked_for_is_handed_on() {
        for (text, seconds) in [
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("99999999", Some(24 * 3600)),
            ("soon", None),
            ("-5", None),
        ] {
            let Delivery::Retry { after, .. } = answer(429, Some(text)) else {
                panic!("{text}");
            };
            assert_eq!(after.map(|a| a.as_secs()), seconds, "{text}");
        }
    }
}
