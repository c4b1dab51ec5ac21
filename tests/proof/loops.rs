//! Each loop dies in the middle of its work.

use serde_json::Value;

use crate::row::{Row, Tier, Verdict};
use crate::support::outside;
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, silent, succeeded};

/// The rows about loops.
pub(crate) const ROWS: &[Row] = &[Row {
    name: "loops-die",
    run: |tier| Box::pin(loops_die(tier)),
}];

const LOOPS: [&str; 5] = ["worker", "sender", "reconcile", "upkeep", "watch"];

/// Every loop panics: it is started again, `/healthz` counts it, and the work goes on.
async fn loops_die(tier: Tier) -> Verdict {
    if !cfg!(feature = "failpoints") {
        return Verdict::Skipped("built without --features failpoints".to_owned());
    }
    let rounds = tier.of(1, 10);
    let mut stand = Stand::up().await;
    for round in 0..rounds {
        stand.kill().await;
        // The first passage is the supervisor's own, the second is the loop's first turn.
        let points: Vec<_> = LOOPS
            .iter()
            .map(|name| format!("fp-loop-{name}=1*off->1*panic->off"))
            .collect();
        stand.start_with(&[("FAILPOINTS", &points.join(";"))]).await;
        let name = stand.gemini.start(silent(false)).unwrap();
        let told = stand
            .deliver(&format!("loops-{round}"), succeeded(&name))
            .await;
        assert_eq!(told.0, 200);
        stand.settled(&name).await;
        eventually("each loop is counted once", SOON, async || {
            let url = format!("http://{}/healthz", stand.admin);
            let answer = stand
                .http
                .get(url)
                .bearer_auth(crate::support::stand::ADMIN_TOKEN);
            let health: Value = answer.send().await.ok()?.json().await.ok()?;
            let restarts = |name: &str| {
                let all = health.get("loops")?.as_array()?;
                all.iter()
                    .find(|l| l.get("name").is_some_and(|n| n == name))?
                    .get("restarts")?
                    .as_u64()
            };
            LOOPS
                .iter()
                .all(|name| restarts(name) == Some(1))
                .then_some(())
        })
        .await;
        outside::check_file(&stand.db()).await;
    }
    Verdict::Passed(format!("{} loops, {rounds} deaths each", LOOPS.len()))
}
