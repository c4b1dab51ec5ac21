//! The operator's page through real HTTP, over a real store.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

mod live;
mod pages;
mod sign_in;

use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::{Clock, SystemClock};
use hookledger::base::shutdown::Shutdown;
use hookledger::http::admin::{AdminTokens, admin_router};
use hookledger::http::health::{Health, Watched};
use hookledger::http::layers::{Common, wrap};
use hookledger::http::peers::Peers;
use hookledger::http::serve::serve;
use hookledger::http::state::AdminState;
use hookledger::http::web::Web;
use hookledger::telemetry::metrics::Metrics;
use hookledger::work::Fetching;
use reqwest::header::{HeaderMap, HeaderName};
use tokio::net::TcpListener;

use crate::http_support::settings as serve_settings;
use crate::support::world::World;

const TOKEN: &str = "test-admin-token-0123456789abcdefgh";
const LOOKS: &str = "test-reading-token-0123456789abcdefg";

fn two_tokens() -> String {
    format!(
        "[admin]\ntoken = '{TOKEN}'\n[[admin.tokens]]\nname = 'dashboard'\nscope = 'read'\ntoken = '{LOOKS}'\n"
    )
}

/// The page of a world, listening.
struct Site {
    world: World,
    stop: Shutdown,
    tokens: AdminTokens,
    url: String,
    client: reqwest::Client,
}

/// What came back.
struct Seen {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        assert!(self.body.contains(text), "{text}\nnot in\n{}", self.body);
    }

    #[track_caller]
    fn hides(&self, text: &str) {
        assert!(!self.body.contains(text), "{text}\nin\n{}", self.body);
    }

    /// The word of the page's forms.
    fn csrf(&self) -> String {
        let (_, after) = self.body.split_once("name=\"csrf\" value=\"").unwrap();
        after.split('"').next().unwrap().to_owned()
    }
}

/// Somebody who is signed in.
struct Visitor<'s> {
    site: &'s Site,
    cookie: String,
}

impl Site {
    async fn new() -> Self {
        Self::with(&two_tokens()).await
    }

    async fn with(toml: &str) -> Self {
        Self::over(World::with(toml).await).await
    }

    async fn over(world: World) -> Self {
        Self::behind(world, Peers::default()).await
    }

    async fn behind(world: World, peers: Peers) -> Self {
        let clock: Arc<dyn Clock> = world.base.clock.clone();
        // The listener's own times are the machine's.
        let real: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let stop = Shutdown::new(Arc::clone(&real));
        let health = Arc::new(Health::new(Watched {
            store: world.base.store.clone(),
            clock: Arc::clone(&clock),
            groups: Vec::new(),
            loop_intervals: Vec::new(),
            min_free_disk: world.settings.store.min_free_disk,
            fetching: Arc::new(|| Fetching::Works),
        }));
        let ids = world.base.ids.clone();
        let web = Web::new(
            &world.settings,
            Arc::clone(&clock),
            ids.clone(),
            stop.clone(),
        );
        let state = AdminState::new(
            &world.settings,
            world.base.store.clone(),
            world.registrar.clone(),
            world.receiver.clone(),
            health,
            Metrics::local().1,
        )
        .with_web(Arc::new(web));
        let (tokens, _) = state.secrets();
        let common = Common {
            clock: real,
            ids,
            peers,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = wrap(admin_router(state), common);
        let serving = serve(listener, routes, serve_settings(), stop.clone());
        stop.spawn("listener", serving);
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(20))
            .build()
            .unwrap();
        Self {
            world,
            stop,
            tokens,
            url,
            client,
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Seen {
        let answer = request.send().await.unwrap();
        Seen {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            body: answer.text().await.unwrap(),
        }
    }

    fn ask(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{path}", self.url))
    }

    async fn get(&self, path: &str) -> Seen {
        self.send(self.ask(path)).await
    }

    fn form(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        let kind = "application/x-www-form-urlencoded";
        self.client
            .post(format!("{}{path}", self.url))
            .header("content-type", kind)
            .body(body.extend_pairs(fields).finish())
    }

    async fn sign_in(&self, token: &str) -> Visitor<'_> {
        let seen = self.send(self.form("/login", &[("token", token)])).await;
        assert_eq!((seen.status, seen.header("location")), (303, "/"));
        let cookie = seen.header("set-cookie");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Visitor { site: self, cookie }
    }
}

impl Visitor<'_> {
    async fn get(&self, path: &str) -> Seen {
        let request = self.site.ask(path).header("cookie", &self.cookie);
        self.site.send(request).await
    }

    /// A page that must be there.
    async fn page(&self, path: &str) -> Seen {
        let seen = self.get(path).await;
        assert_eq!(seen.status, 200, "{path}: {}", seen.body);
        assert_eq!(seen.header("content-type"), "text/html; charset=utf-8");
        seen
    }

    /// Presses a button as a browser would, with these fields beside the page's word.
    async fn press(&self, path: &str, fields: &[(&str, &str)]) -> Seen {
        let csrf = self.page("/").await.csrf();
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend(fields);
        self.press_with(path, &all, &[]).await
    }

    async fn press_with(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Seen {
        let mut request = self.site.form(path, fields).header("cookie", &self.cookie);
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request = request.header(name, *value);
        }
        self.site.send(request).await
    }
}
