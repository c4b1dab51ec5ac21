//! The proxy in front of us stops: nobody is called any more, and we are the one to say so.

use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::row::{Row, Tier, Verdict};
use crate::support::outside;
use crate::support::process::{self, eventually};
use crate::support::stand::{PATH_TOKEN, SOON, Stand};

/// The rows about being called.
pub(crate) const ROWS: &[Row] = &[Row {
    name: "canary-proxy",
    run: |tier| Box::pin(canary(tier)),
}];

const OPEN: &str =
    "SELECT count(*) FROM alerts WHERE subject = 'subscription/canary' AND state = 'open'";
const RECOVERED: &str =
    "SELECT count(*) FROM alerts WHERE subject = 'subscription/canary' AND state = 'recovered'";

/// A ping comes back through the proxy; without the proxy it is missed within its bound, which
/// alerts; with it the alert ends.
async fn canary(tier: Tier) -> Verdict {
    let outer = process::address();
    let uri = format!("'http://{outer}/hooks/gemini/{PATH_TOKEN}'");
    let mut stand = Stand::with(&[
        ("subscription.enabled", "true"),
        ("subscription.uri", &uri),
        ("subscription.secrets_file", "'signing-secrets.json'"),
        ("subscription.poll_interval", "'1s'"),
        ("subscription.ping_interval", "'2s'"),
        ("subscription.ping_bound", "'1s'"),
    ])
    .await;
    let caddyfile = format!(
        "{{\n admin off\n auto_https off\n}}\nhttp://{outer} {{\n reverse_proxy {}\n}}\n",
        stand.public
    );
    let place = stand.dir.path().join("Caddyfile");
    std::fs::write(&place, caddyfile).unwrap();
    let Some(mut proxy) = caddy(&place) else {
        return Verdict::Skipped("there is no caddy".to_owned());
    };
    // It is made by the command, as an operator would, and found by the running service.
    let made = stand.command(&["webhooks", "create"]).await;
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    stand.kill().await;
    stand.start().await;
    let pings = "SELECT count(*) FROM captured_events WHERE event_type LIKE '%ping%'";
    let rounds = tier.of(1, 5);
    for round in 0..rounds {
        let before = outside::count(&stand.db(), pings).await;
        eventually("a ping comes through", SOON, async || {
            (outside::count(&stand.db(), pings).await > before).then_some(())
        })
        .await;
        assert_eq!(outside::count(&stand.db(), OPEN).await, 0, "round {round}");
        proxy.kill().await.unwrap();
        eventually("the missing ping alerts", SOON, async || {
            (outside::count(&stand.db(), OPEN).await == 1).then_some(())
        })
        .await;
        proxy = caddy(&place).unwrap();
        eventually("the alert ends", SOON, async || {
            (outside::count(&stand.db(), RECOVERED).await == 1).then_some(())
        })
        .await;
    }
    Verdict::Passed(format!(
        "{rounds} stops of the proxy, each alerted and recovered"
    ))
}

/// A running Caddy, if the machine has one. It looks for nothing outside of the file.
fn caddy(file: &Path) -> Option<Child> {
    let home = file.parent().unwrap();
    Command::new("caddy")
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(file)
        .env("HOME", home)
        .env("XDG_DATA_HOME", home)
        .env("XDG_CONFIG_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()
}
