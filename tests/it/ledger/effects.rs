//! Effects: repeated, given up, cut off, planned again.

use std::time::Duration;

use hookledger::domain::effect::{AmbiguousPolicy, Delivery, EffectState};

use crate::support::TestStore;
use crate::support::world::{World, failed, succeeded};

use super::{A, HOUR, MINUTE};

#[tokio::test]
async fn a_failed_effect_is_repeated_with_the_same_key_and_body_until_it_is_done() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, failed(A));
    w.tell("m1", A).await;
    w.work().await;
    for end in [
        Delivery::Retry {
            after: Some(HOUR),
            why: "503".into(),
        },
        Delivery::Ambiguous {
            why: "timeout".into(),
        },
    ] {
        w.notify.answer_next(end);
    }
    assert_eq!(w.send().await, [EffectState::Planned]);
    w.advance(59 * MINUTE);
    assert_eq!(w.send().await, [], "Retry-After is honoured");
    w.advance(HOUR);
    assert_eq!(w.send().await, [EffectState::Ambiguous]);
    w.advance(2 * HOUR);
    assert_eq!(w.send().await, [EffectState::Done]);
    let sent = w.notify.sent();
    assert_eq!(sent.len(), 3);
    assert!(
        sent.iter()
            .all(|m| m.key == sent[0].key && m.payload == sent[0].payload)
    );
}

#[tokio::test]
async fn an_effect_is_given_up_by_age_and_never_by_count_and_can_be_retried() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    let mut attempts = 0;
    for _ in 0..200 {
        w.notify.answer_next(Delivery::Retry {
            after: None,
            why: "down".into(),
        });
        match w.send().await.as_slice() {
            [EffectState::Dead] => break,
            [EffectState::Planned] => attempts += 1,
            other => panic!("{other:?}"),
        }
        w.advance(HOUR + 15 * MINUTE);
    }
    assert!(attempts > 50, "given up after {attempts} attempts");
    let operation = w.operation(A).await.unwrap();
    assert!(!operation.side_effect_done);
    let effect = w
        .base
        .store
        .effects_of(operation.id)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(effect.state, EffectState::Dead);
    assert!(
        w.base.store.open_alerts().await.unwrap()[0]
            .summary
            .contains("notify")
    );
    for turn in 0..3 {
        assert_eq!(
            w.reconcile().await.repaired,
            0,
            "the sweep never touches dead, turn {turn}"
        );
    }
    assert!(w.registrar.retry(operation.id).await.unwrap());
    w.notify.answer_next(Delivery::Done);
    assert!(w.send().await.contains(&EffectState::Done));
    let sent = w.notify.sent();
    assert_eq!(sent.last().unwrap().key, sent[0].key);
}

#[tokio::test]
async fn a_crash_while_sending_is_ambiguous_and_the_policy_decides() {
    for (policy, then) in [
        (AmbiguousPolicy::Retry, EffectState::Ambiguous),
        (AmbiguousPolicy::Hold, EffectState::Held),
    ] {
        let w = World::on(TestStore::open().await, "", policy);
        w.register(A, "nightly").await;
        w.api.says(A, succeeded(A));
        w.tell("m1", A).await;
        w.work().await;
        let sending = w
            .base
            .store
            .begin_sends(vec![("notify".to_owned(), 10)], MINUTE)
            .await
            .unwrap();
        assert_eq!(sending.len(), 1);
        let (dir, now) = w.base.close().await;

        let w = World::on(TestStore::open_in(dir, now, 2).await, "", policy);
        assert_eq!(w.reconciler.recover().await.unwrap().sends_freed, 1);
        let id = w.operation(A).await.unwrap().id;
        assert_eq!(w.base.store.effects_of(id).await.unwrap()[0].state, then);
        w.send().await;
        let repeated = w.notify.sent().len();
        assert_eq!(repeated, usize::from(policy == AmbiguousPolicy::Retry));
        // The sender of before may still think that it holds the row.
        let late = w.base.store.end_send(
            &sending[0],
            hookledger::domain::ledger::EffectEnd::Done,
            w.planner.clone(),
        );
        assert!(matches!(
            late.await,
            Err(hookledger::store::StoreError::Fenced { .. })
        ));
    }
}

#[tokio::test]
async fn missing_outbox_rows_are_planned_again() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    crate::support::sql(w.dir(), "DELETE FROM effects").await;
    assert_eq!(w.reconcile().await.repaired, 1);
    assert_eq!(w.reconcile().await.repaired, 0);
    assert_eq!(w.send().await, [EffectState::Done]);
}

/// What is logged, as text.
#[derive(Clone, Default)]
struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(part)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_failed_attempt_is_a_warning_that_says_why() {
    let lines = Lines::default();
    let writer = lines.clone();
    let logger = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(logger);
    // A second subscriber, or a line another thread met first would be taken to interest nobody.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let w = World::new().await;
    w.notify.answer_next(Delivery::Retry {
        after: Some(Duration::from_secs(1)),
        why: "the canary is asleep".to_owned(),
    });
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.send().await;
    w.advance(Duration::from_hours(1));
    assert_eq!(w.send().await, [EffectState::Done]);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let told: Vec<_> = text
        .lines()
        .filter(|line| line.contains("effect attempt ended"))
        .collect();
    assert_eq!(told.len(), 2, "{text}");
    assert!(told[0].contains("WARN"), "{text}");
    assert!(told[0].contains("the canary is asleep"), "{text}");
    assert!(
        told[1].contains("INFO") && !told[1].contains("why"),
        "{text}"
    );
}
