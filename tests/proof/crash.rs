//! The process dies at a named instant.

use crate::row::{Row, Tier, Verdict};
use crate::support::outside;
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, silent, succeeded};

/// The rows about crashes.
pub(crate) const ROWS: &[Row] = &[Row {
    name: "T2-fail-points",
    run: |tier| Box::pin(fail_points(tier)),
}];

/// Dies after the commit and before the answer: the sender heard nothing, the event is there.
async fn fail_points(tier: Tier) -> Verdict {
    if !cfg!(feature = "failpoints") {
        return Verdict::Skipped("built without --features failpoints".to_owned());
    }
    let rounds = tier.of(1, 10);
    let mut stand = Stand::up().await;
    stand.kill().await;
    for round in 0..rounds {
        let (id, name) = (
            format!("cut-{round}"),
            stand.gemini.start(silent(false)).unwrap(),
        );
        stand.start_with(&[("FAILPOINTS", "in3=return")]).await;
        assert!(stand.signed(&id, succeeded(&name)).send().await.is_err());
        let ended = stand.take().ended(SOON).await;
        assert_eq!(ended.code(), None, "ended by a signal");
        stand.start().await;
        let again = stand.deliver(&id, succeeded(&name)).await;
        assert_eq!(again, (200, "duplicate".to_owned()));
        stand.settled(&name).await;
        eventually("all is settled", SOON, async || {
            outside::is_drained(&stand.db()).await.then_some(())
        })
        .await;
        stand.kill().await;
    }
    Verdict::Passed(format!("{rounds} kills"))
}
