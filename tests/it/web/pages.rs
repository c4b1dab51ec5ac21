//! What the pages show, and what their buttons do.

use hookledger::domain::effect::{AmbiguousPolicy, Delivery, EffectState};
use hookledger::domain::fault::Fault;
use hookledger::store::{EffectFilter, EventFilter, WorkFilter};
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::support::TestStore;
use crate::support::world::{Says, succeeded};

/// Every page of the house that needs no id, and the stream.
pub(super) const PATHS: &[&str] = &[
    "/",
    "/operations",
    "/events",
    "/queue",
    "/queue?state=dead",
    "/queue/retry",
    "/effects",
    "/alerts",
    "/settings",
    "/live",
];

/// What somebody would put into a delivery to be run by whoever looks at it.
const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&";

fn pages() -> impl Iterator<Item = &'static str> {
    PATHS.iter().copied().filter(|path| *path != "/live")
}

/// A house in which everything has happened: a settled operation whose effect is dead or held, a dead
/// letter, an open one, and a delivery that is an attack.
struct Full {
    site: Site,
    settled: Uuid,
    open: Uuid,
    effect: Uuid,
    attack: Uuid,
}

async fn full(ends: Delivery) -> Full {
    let base = TestStore::open().await;
    let more = "[worker]\nmax_attempts = 1\n";
    let world = World::on(
        base,
        &format!("{}{more}", two_tokens()),
        AmbiguousPolicy::Hold,
    );
    let (done, odd, open) = ("batches/done", "batches/odd", "batches/open");
    world.api.says(done, succeeded(done));
    let fault = Fault::Undecodable {
        what: "the body is not JSON".to_owned(),
    };
    world.api.says(odd, Says::Fault(fault));
    for name in [done, odd, open] {
        world.register(name, "nightly").await;
    }
    world.advance(Duration::from_secs(5));
    world.tell("msg_1", done).await;
    world.tell("msg_2", odd).await;
    world.work().await;
    world.notify.answer_next(ends);
    world.send().await;
    world.reconcile().await;
    let attack = world
        .deliver(
            "msg_3",
            json!({"type": HOSTILE, "data": {"id": HOSTILE, "x": HOSTILE}}),
        )
        .await;
    let id = async |name: &str| world.operation(name).await.unwrap().id;
    let (settled, open) = (id(done).await, id(open).await);
    let effects = world.base.store.effects_of(settled).await.unwrap();
    Full {
        effect: effects[0].id,
        attack: attack.event_id,
        site: Site::over(world).await,
        settled,
        open,
    }
}

fn refused() -> Delivery {
    Delivery::Refused {
        why: "the receiver answered 410".to_owned(),
    }
}

impl Full {
    async fn effect(&self) -> EffectState {
        let found = self.site.world.base.store.effect(self.effect).await;
        found.unwrap().unwrap().state
    }

    async fn dead(&self) -> u64 {
        self.site.world.base.store.gauges().await.unwrap().dead
    }
}

#[tokio::test]
async fn an_empty_house_says_what_to_do_next() {
    let site = Site::new().await;
    let visitor = site.sign_in(TOKEN).await;
    let page = visitor.page("/").await;
    page.shows("All is well: ");
    page.shows("nothing is open, no webhook has come yet.");
    for (path, next) in [
        ("/", "hookledger operations register"),
        ("/operations", "hookledger operations register"),
        ("/events", "hookledger webhooks sync --dry-run"),
        ("/queue", "a registration and the timer"),
        ("/queue?state=dead", "No dead letter."),
        ("/queue/retry", "No dead letter."),
        ("/effects", "[[effects]]"),
        ("/alerts", "No alert is open."),
        ("/settings", "Not known yet."),
        ("/operations?state=failed", "Take a filter away"),
    ] {
        visitor.page(path).await.shows(next);
    }
}

#[tokio::test]
async fn every_page_of_a_full_house_is_there_and_nothing_in_it_is_run() {
    let full = full(refused()).await;
    let visitor = full.site.sign_in(TOKEN).await;
    let mut paths: Vec<String> = pages().map(ToOwned::to_owned).collect();
    paths.push(format!("/operations/{}", full.settled));
    paths.push(format!("/operations/{}", full.open));
    paths.push(format!("/effects/{}", full.effect));
    paths.push(format!("/events/{}", full.attack));
    let query = url::form_urlencoded::byte_serialize(HOSTILE.as_bytes());
    let query: String = query.collect();
    for list in ["operations", "events", "queue", "effects"] {
        for field in [
            "q", "state", "job_kind", "type", "effect", "cursor", "age", "since",
        ] {
            paths.push(format!("/{list}?{field}={query}"));
        }
    }
    for path in &paths {
        let page = visitor.page(path).await;
        page.hides("<script>alert");
        page.hides("<img");
        page.hides("onerror=alert(2)>\"");
        // Every id once, or a label and the keyboard's focus lead elsewhere.
        let ids: Vec<&str> = page.body.split(" id=\"").skip(1).collect();
        let ids: Vec<&str> = ids.iter().map(|i| i.split('"').next().unwrap()).collect();
        let different: std::collections::BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(ids.len(), different.len(), "{path}: {ids:?}");
    }
    let page = visitor.page(&format!("/events/{}", full.attack)).await;
    page.shows("&lt;script&gt;alert(1)&lt;/script&gt;");
    page.shows("${HOOK_PATH_TOKEN:?}");
    let ask = async |path: String| visitor.get(&path).await.status;
    assert_eq!(ask(format!("/events/{}", Uuid::nil())).await, 404);
    assert_eq!(ask(format!("/effects/{}", Uuid::nil())).await, 404);
    assert_eq!(ask(format!("/operations/{}", Uuid::nil())).await, 404);
    assert_eq!(ask("/events/x".to_owned()).await, 400);
}

#[tokio::test]
async fn the_overview_says_what_is_wrong_and_where_it_is_repaired() {
    let full = full(refused()).await;
    let visitor = full.site.sign_in(TOKEN).await;
    let page = visitor.page("/").await;
    page.shows("<title>2 things to look at · hookledger</title>");
    page.shows("This needs you: </strong>1 dead letter; 1 dead effect.");
    page.shows("href=\"/queue?state=dead\"");
    page.shows("href=\"/effects?state=dead\"");
    visitor
        .page("/alerts")
        .await
        .shows("<code>queue/dead</code>");
}

#[tokio::test]
async fn one_operation_tells_its_story_in_order() {
    let full = full(refused()).await;
    let visitor = full.site.sign_in(TOKEN).await;
    let page = visitor.page(&format!("/operations/{}", full.settled)).await;
    let mut rest = page.body.split_once("<ol class=\"moments\">").unwrap().1;
    for moment in [
        "Registered",
        ">5 s<",
        "Webhook batch.succeeded",
        "Fetched: it has ended",
        "a webhook named it",
        "Settled: succeeded",
        "Effect notify planned",
        "Effect notify is dead",
        "the receiver answered 410; 1 attempt",
    ] {
        let found = rest.split_once(moment);
        rest = found
            .unwrap_or_else(|| panic!("{moment}\nnot in\n{rest}"))
            .1;
    }
    page.shows("<circle");
    page.shows("${HOOKLEDGER_ADMIN_TOKEN:?}");
    let named = visitor.get("/operations/named?name=batches%2Fdone").await;
    assert_eq!(
        named.header("location"),
        format!("/operations/{}", full.settled)
    );
    let named = visitor.get("/operations/named?name=done").await;
    assert_eq!(named.header("location"), "/operations?q=done");
}

#[tokio::test]
async fn lists_are_narrowed_by_their_forms_and_go_on() {
    let site = Site::new().await;
    for n in 0..120 {
        let kind = if n % 2 == 0 { "nightly" } else { "hourly" };
        site.world.register(&format!("batches/n{n:03}"), kind).await;
    }
    let visitor = site.sign_in(TOKEN).await;
    let mut path = "/operations?job_kind=nightly&state=pending&q=".to_owned();
    let mut seen = 0;
    loop {
        let page = visitor.page(&path).await;
        page.hides(">hourly<");
        page.shows("value=\"nightly\"");
        seen += page.body.matches(" id=\"o-").count();
        let Some((_, older)) = page.body.split_once("rel=\"next\" href=\"") else {
            break;
        };
        path = older.split('"').next().unwrap().replace("&amp;", "&");
        assert!(path.contains("job_kind=nightly"), "{path}");
    }
    assert_eq!(seen, 60);
    let page = visitor.page("/operations?q=batches/n00").await;
    assert_eq!(page.body.matches(" id=\"o-").count(), 10);
    visitor
        .page("/operations?q=a b")
        .await
        .shows("role=\"alert\"");
    let page = visitor.page("/operations?age=over-1h").await;
    assert_eq!(page.body.matches(" id=\"o-").count(), 0);
    site.world.advance(Duration::from_hours(2));
    let page = visitor.page("/operations?age=over-1h").await;
    assert_eq!(page.body.matches(" id=\"o-").count(), 50);
}

#[tokio::test]
async fn fetching_replaying_and_putting_back_do_what_they_say() {
    let full = full(refused()).await;
    let (visitor, store) = (full.site.sign_in(TOKEN).await, &full.site.world.base.store);
    let here = format!("/operations/{}", full.open);
    let seen = visitor.press(&format!("{here}/fetch"), &[]).await;
    assert_eq!((seen.status, seen.header("location")), (303, here.as_str()));
    let newest = &store
        .work_items(&WorkFilter::default(), None, 1)
        .await
        .unwrap()
        .items[0];
    assert_eq!(
        (newest.operation.as_str(), newest.reason.as_str()),
        ("batches/open", "operator")
    );
    // It is said once.
    visitor.page(&here).await.shows("A fetch is queued");
    visitor.page(&here).await.hides("A fetch is queued");

    let newest = async || {
        let all = EventFilter::default();
        store.events(&all, None, 1).await.unwrap().items[0].clone()
    };
    let seen = visitor
        .press(&format!("/events/{}/replay", full.attack), &[])
        .await;
    let replay = newest().await;
    assert_eq!(seen.header("location"), format!("/events/{}", replay.id));
    assert_eq!(replay.proof, "replay");

    assert_eq!(full.dead().await, 1);
    let confirm = visitor.page("/queue/retry").await;
    confirm.shows("<strong>1 dead letter</strong>");
    confirm.shows("batches/odd");
    assert_eq!(full.dead().await, 1, "nothing was done yet");
    for wrong in [vec![], vec![("id", "x")], vec![("id", "1"), ("all", "yes")]] {
        assert_eq!(visitor.press("/queue/retry", &wrong).await.status, 400);
    }
    let fields = [("all", "yes"), ("back", "/queue?state=dead")];
    let seen = visitor.press("/queue/retry", &fields).await;
    assert_eq!(
        (seen.status, seen.header("location")),
        (303, "/queue?state=dead")
    );
    assert_eq!(full.dead().await, 0);
    // What only leads on shows nothing, so it must leave the sentence to the page it leads to.
    for on in ["/login", "/operations/named?name=done"] {
        assert_eq!(visitor.get(on).await.status, 303, "{on}");
    }
    visitor.page("/queue").await.shows("Put back: 1 item.");
}

#[tokio::test]
async fn a_dead_effect_is_retried_and_a_held_one_resolved() {
    let full = full(refused()).await;
    let visitor = full.site.sign_in(TOKEN).await;
    assert_eq!(full.effect().await, EffectState::Dead);
    let here = format!("/effects/{}", full.effect);
    let decide = format!("{here}/decide");
    let page = visitor.page(&here).await;
    page.shows("name=\"as\" value=\"retry\"");
    page.hides("value=\"done\"");
    assert_eq!(visitor.press(&decide, &[("as", "x")]).await.status, 400);
    let fields = [("as", "retry"), ("back", "//evil.example")];
    let seen = visitor.press(&decide, &fields).await;
    assert_eq!((seen.status, seen.header("location")), (303, "/"));
    assert_eq!(full.effect().await, EffectState::Planned);
    full.site.world.send().await;
    assert_eq!(full.effect().await, EffectState::Done);

    for (word, end) in [("done", EffectState::Done), ("dead", EffectState::Dead)] {
        let full = self::full(Delivery::Ambiguous {
            why: "no answer".to_owned(),
        })
        .await;
        let visitor = full.site.sign_in(TOKEN).await;
        assert_eq!(full.effect().await, EffectState::Held);
        let here = format!("/operations/{}", full.settled);
        visitor.page(&here).await.shows("It arrived");
        let decide = format!("/effects/{}/decide", full.effect);
        let fields = [("as", word), ("back", here.as_str())];
        let seen = visitor.press(&decide, &fields).await;
        assert_eq!((seen.status, seen.header("location")), (303, here.as_str()));
        assert_eq!(full.effect().await, end);
        let held = EffectFilter {
            state: Some(EffectState::Held),
            ..EffectFilter::default()
        };
        let store = &full.site.world.base.store;
        assert!(
            store
                .effects(&held, None, 1)
                .await
                .unwrap()
                .items
                .is_empty()
        );
    }
}
