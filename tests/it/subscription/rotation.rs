//! A rotation refuses no true delivery, wherever it dies.

use std::time::Duration;

use hookledger::gemini::webhooks::Revocation;
use hookledger::reconcile::rotation::{Progress, RotationError};
use hookledger::verify::secret_file::{Rotating, Stage};

use super::scene::Scene;

const FOREIGN: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// Steps until a delivery has proven the new secret, and sends an event at each turn.
async fn to_its_end(scene: &Scene) {
    for _ in 0..6 {
        let name = scene.job().await;
        scene.end(&name).await;
        let progress = scene.step().await.rotation;
        scene.fake.step().await;
        scene.pass(Duration::from_secs(15));
        if progress == Some(Progress::Proven) {
            return;
        }
    }
    panic!("it never ended");
}

fn every_delivery_was_taken(scene: &Scene) {
    let answers = scene.answers();
    assert!(!answers.is_empty());
    assert!(answers.iter().all(|a| *a == Some(200)), "{answers:?}");
}

#[tokio::test]
async fn old_and_new_are_accepted_until_the_day_is_over() {
    let scene = Scene::new("", "").await;
    let before = scene.secrets();
    assert_eq!(scene.forge(FOREIGN).await, 401);
    let rotation = scene.subscription.rotation().unwrap();
    rotation.begin(&scene.id).await.unwrap();
    let again = rotation.begin(&scene.id).await.unwrap_err();
    assert!(matches!(again, RotationError::Open));
    assert_eq!(scene.secrets().len(), 2);
    // Nobody can tell a forged one from one with a secret that is still on its way.
    assert_eq!(scene.forge(FOREIGN).await, 503);
    assert_eq!(scene.forge(before[0].expose()).await, 200);
    to_its_end(&scene).await;
    every_delivery_was_taken(&scene);
    assert_eq!(scene.forge(FOREIGN).await, 401);

    scene.pass(Duration::from_hours(23));
    scene.step().await;
    assert_eq!(scene.secrets().len(), 2);
    scene.pass(Duration::from_hours(1));
    scene.step().await;
    let after = scene.secrets();
    assert_eq!(after.len(), 1);
    assert_ne!(after[0].expose(), before[0].expose());
    assert_eq!(scene.forge(before[0].expose()).await, 401);
    let name = scene.job().await;
    scene.end(&name).await;
    every_delivery_was_taken(&scene);
}

#[tokio::test]
async fn a_crash_at_any_step_resumes() {
    for crash in ["before the call", "before the answer", "after the answer"] {
        let mut scene = Scene::new("", "").await;
        let rotating = Rotating {
            webhook: scene.id.as_str().to_owned(),
            stage: Stage::Rotating,
            since: scene.world.now(),
        };
        match crash {
            "after the answer" => scene.rotation().begin(&scene.id).await.unwrap(),
            other => {
                scene
                    .file()
                    .update(|kept| kept.rotation = Some(rotating))
                    .unwrap();
                if other == "before the answer" {
                    // It came, and nobody wrote it down.
                    scene
                        .api
                        .rotate(&scene.id, Revocation::AfterDay)
                        .await
                        .unwrap();
                }
            }
        }
        scene.restart();
        to_its_end(&scene).await;
        every_delivery_was_taken(&scene);
        let kept = scene.file().load().unwrap();
        assert!(kept.rotation.is_none(), "{crash}");
        assert_eq!(kept.secrets.len(), 2, "{crash}");
        let signs = scene.fake.webhook_secrets(scene.id.as_str());
        let newest = signs.last().unwrap().expose();
        assert_eq!(kept.secrets[1].secret.expose(), newest, "{crash}");
        scene.pass(Duration::from_hours(24));
        scene.step().await;
        let name = scene.job().await;
        scene.end(&name).await;
        every_delivery_was_taken(&scene);
    }
}

#[tokio::test]
async fn a_refusal_leaves_everything_as_it_was() {
    let scene = Scene::new("", "").await;
    let unknown = "nobody".parse().unwrap();
    let refused = scene.rotation().begin(&unknown).await.unwrap_err();
    assert!(matches!(refused, RotationError::Refused(_)), "{refused}");
    let kept = scene.file().load().unwrap();
    assert!(kept.rotation.is_none());
    assert_eq!(kept.secrets.len(), 1);
    assert_eq!(scene.forge(FOREIGN).await, 401);
}
