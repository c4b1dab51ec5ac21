//! Who gets in, who may press, and what a session is.

use hookledger::base::secret::Secret;
use hookledger::config::settings::{Admin, AdminToken, Scope};

use hookledger::store::{Registered, WorkFilter};

use super::pages::PATHS;
use super::*;

#[tokio::test]
async fn the_first_page_leads_to_sign_in_and_a_token_leads_back() {
    let site = Site::new().await;
    let seen = site.get("/").await;
    assert_eq!((seen.status, seen.header("location")), (303, "/login"));
    let seen = site.get("/operations?state=pending").await;
    assert_eq!(
        seen.header("location"),
        "/login?next=%2Foperations%3Fstate%3Dpending"
    );
    let form = site
        .get("/login?next=%2Foperations%3Fstate%3Dpending")
        .await;
    assert_eq!(form.status, 200);
    form.shows("name=\"next\" value=\"/operations?state=pending\"");
    let wrong = [("token", "wrong"), ("next", "/events")];
    let seen = site.send(site.form("/login", &wrong)).await;
    assert_eq!((seen.status, seen.header("set-cookie")), (401, ""));
    seen.shows("neither the token of admin.token");
    seen.hides("wrong");
    for (next, place) in [("/events", "/events"), ("//evil.example", "/"), ("", "/")] {
        let fields = [("token", TOKEN), ("next", next)];
        let seen = site.send(site.form("/login", &fields)).await;
        assert_eq!((seen.status, seen.header("location")), (303, place));
        let cookie = seen.header("set-cookie");
        assert!(cookie.starts_with("hookledger="), "{cookie}");
        assert!(
            cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
    }
    let visitor = site.sign_in(TOKEN).await;
    visitor.page("/").await.shows("All is well");
    let seen = visitor.get("/login?next=%2Fevents").await;
    assert_eq!((seen.status, seen.header("location")), (303, "/events"));
    assert!(site.stop.drain(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn every_path_of_the_page_wants_a_session_and_carries_the_policy() {
    let site = Site::new().await;
    let visitor = site.sign_in(TOKEN).await;
    let page = visitor.page("/").await;
    let policy = page.header("content-security-policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.split("; ").any(|r| r == rule), "{rule} in {policy}");
    }
    assert_eq!(page.header("cache-control"), "no-store");
    assert_eq!(page.header("x-frame-options"), "DENY");
    assert_eq!(page.header("referrer-policy"), "same-origin");
    page.hides("<style");
    page.hides(" style=");
    page.hides(" onclick");
    for script in page.body.split("<script").skip(1) {
        assert!(script.starts_with(" src=\"/assets/"), "{script:.80}");
    }
    for cookie in ["", "hookledger=", "hookledger=AAAA", "other=1"] {
        for path in PATHS {
            let seen = site.send(site.ask(path).header("cookie", cookie)).await;
            assert_eq!(seen.status, 303, "{path}");
            assert!(seen.header("location").starts_with("/login"));
        }
    }
    // A page that refreshes itself is told to go there whole.
    let seen = site.send(site.ask("/").header("hx-request", "true")).await;
    assert_eq!((seen.status, seen.header("hx-redirect")), (401, "/login"));
}

#[tokio::test]
async fn style_and_script_are_kept_for_ever_by_a_name_that_changes() {
    let site = Site::new().await;
    let login = site.get("/login").await;
    let files = login.body.split("\"/assets/").skip(1);
    let files: Vec<&str> = files.map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(files.len(), 5, "{files:?}");
    for file in files {
        let seen = site.get(&format!("/assets/{file}")).await;
        assert_eq!(seen.status, 200, "{file}");
        assert_eq!(
            seen.header("cache-control"),
            "public, max-age=31536000, immutable"
        );
        assert!(!seen.body.is_empty());
    }
    assert_eq!(site.get("/assets/page.css").await.status, 404);
}

#[tokio::test]
async fn a_form_of_another_session_or_site_changes_nothing() {
    let site = Site::new().await;
    let (visitor, other) = (site.sign_in(TOKEN).await, site.sign_in(TOKEN).await);
    let id = registered(&site).await;
    let path = format!("/operations/{id}/fetch");
    let (own, others) = (visitor.page("/").await.csrf(), other.page("/").await.csrf());
    for fields in [
        vec![],
        vec![("csrf", "")],
        vec![("csrf", others.as_str())],
        vec![("csrf", own.as_str()), ("csrf", own.as_str())],
    ] {
        let seen = visitor.press_with(&path, &fields, &[]).await;
        assert_eq!(seen.status, 403, "{fields:?}");
    }
    let right = [("csrf", own.as_str())];
    for headers in [
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
        [("origin", "null")],
        [("origin", "https://evil.example")],
    ] {
        let seen = visitor.press_with(&path, &right, &headers).await;
        assert_eq!(seen.status, 403, "{headers:?}");
        let fields = [("token", TOKEN)];
        let request = site.form("/login", &fields);
        let request = request.header(headers[0].0, headers[0].1);
        assert_eq!(
            site.send(request).await.status,
            403,
            "signing in: {headers:?}"
        );
    }
    let seen = site.send(site.form(&path, &right)).await;
    assert_eq!((seen.status, seen.header("location")), (303, "/login"));
    assert_eq!(asked_for(&site).await, 0);
    for headers in [
        vec![("origin", site.url.as_str())],
        vec![
            ("sec-fetch-site", "same-origin"),
            ("origin", "https://proxied.example"),
        ],
    ] {
        let seen = visitor.press_with(&path, &right, &headers).await;
        assert_eq!(
            (seen.status, seen.header("location")),
            (303, path.trim_end_matches("/fetch"))
        );
    }
    assert_eq!(asked_for(&site).await, 1);
}

#[tokio::test]
async fn a_reading_token_sees_all_presses_nothing_and_is_told_so() {
    let site = Site::new().await;
    let id = registered(&site).await;
    let visitor = site.sign_in(LOOKS).await;
    let page = visitor.page(&format!("/operations/{id}")).await;
    page.shows("dashboard");
    page.shows("may only look");
    page.shows("disabled title=\"Your token may only look\"");
    let seen = visitor.press(&format!("/operations/{id}/fetch"), &[]).await;
    assert_eq!(seen.status, 403);
    seen.shows("This token may only look");
    assert_eq!(asked_for(&site).await, 0);
    // Signing out is not a change.
    assert_eq!(visitor.press("/logout", &[]).await.status, 303);
}

#[tokio::test]
async fn a_session_ends_by_signing_out_by_rest_and_with_its_token() {
    let site = Site::new().await;
    let visitor = site.sign_in(TOKEN).await;
    let seen = visitor.press("/logout", &[]).await;
    assert_eq!((seen.status, seen.header("location")), (303, "/login"));
    assert!(seen.header("set-cookie").starts_with("hookledger=; "));
    assert!(seen.header("set-cookie").ends_with("; Max-Age=0"));
    assert_eq!(visitor.get("/").await.status, 303);

    let visitor = site.sign_in(TOKEN).await;
    site.world.advance(Duration::from_hours(11));
    visitor.page("/").await;
    // What refreshes itself is nobody at the keyboard.
    site.world.advance(Duration::from_hours(11));
    let by_itself = site.ask("/").header("cookie", &visitor.cookie);
    let seen = site.send(by_itself.header("hx-request", "true")).await;
    assert_eq!(seen.status, 200);
    site.world.advance(Duration::from_hours(2));
    assert_eq!(visitor.get("/").await.status, 303);

    let (full, looks) = (site.sign_in(TOKEN).await, site.sign_in(LOOKS).await);
    let admin = |scope| Admin {
        listen: ([127, 0, 0, 1], 0).into(),
        token: None,
        tokens: vec![AdminToken {
            place: "0".to_owned(),
            name: "dashboard".to_owned(),
            scope,
            token: Secret::new(LOOKS),
        }],
    };
    site.tokens.replace(&admin(Scope::Full));
    assert_eq!(full.get("/").await.status, 303, "its token was withdrawn");
    looks.page("/").await.hides("may only look");
}

#[tokio::test]
async fn who_guesses_is_told_to_go_away_and_a_right_token_still_gets_in() {
    let world = World::with(&two_tokens()).await;
    let peers = Peers::new(vec!["127.0.0.1/32".parse().unwrap()]);
    let site = Site::behind(world, peers).await;
    let from = |fields: &[(&str, &str)], address: &str| {
        let request = site.form("/login", fields);
        request.header("x-forwarded-for", address)
    };
    let guess = [("token", "a guess")];
    for n in 0..60 {
        let seen = site.send(from(&guess, "198.51.100.7")).await;
        assert_eq!(seen.status, 401, "{n}");
    }
    assert_eq!(site.send(from(&guess, "198.51.100.7")).await.status, 429);
    assert_eq!(site.send(from(&guess, "198.51.100.8")).await.status, 401);
    let right = [("token", TOKEN)];
    let seen = site.send(from(&right, "198.51.100.7")).await;
    assert_eq!(seen.status, 303);
    // The cookie is kept off plain connections when a trusted proxy says that this was none.
    assert!(!seen.header("set-cookie").contains("Secure"));
    for (said, secure) in [("https", true), ("http", false), ("https, http", false)] {
        let request = site
            .form("/login", &right)
            .header("x-forwarded-proto", said);
        let seen = site.send(request).await;
        let cookie = seen.header("set-cookie");
        assert_eq!(cookie.contains("; Secure"), secure, "{said}: {cookie}");
    }
}

#[tokio::test]
async fn without_a_token_nobody_signs_in_and_the_page_says_why() {
    let site = Site::with("").await;
    site.get("/login")
        .await
        .shows("No admin token is configured");
    let seen = site.send(site.form("/login", &[("token", "")])).await;
    assert_eq!(seen.status, 401);
}

/// An operation whose first look is far away.
async fn registered(site: &Site) -> uuid::Uuid {
    match site.world.register("batches/a", "nightly").await {
        Registered::New(operation) => operation.id,
        other => panic!("{other:?}"),
    }
}

/// Looks that a person asked for.
async fn asked_for(site: &Site) -> usize {
    let items = site
        .world
        .base
        .store
        .work_items(&WorkFilter::default(), None, 50)
        .await
        .unwrap()
        .items;
    items
        .iter()
        .filter(|item| item.reason.as_str() == "operator")
        .count()
}
