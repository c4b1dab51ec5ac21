//! The whole thing as `serve` runs it: on the machine's clock, sending by itself, stopping when told.

use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::SystemClock;
use hookledger::base::ids::RandomIds;
use hookledger::base::shutdown::Shutdown;
use hookledger::simulator::{Fault, FaultKind, Kind, NewJob, Simulator, SimulatorConfig};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::simulator_support::client;

#[tokio::test]
async fn it_sends_what_falls_due_and_stops_in_the_middle_of_a_hang() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let server = MockServer::start().await;
    let answer = Mock::given(any()).respond_with(move |request: &Request| {
        tell.send(request.body.clone()).unwrap();
        ResponseTemplate::new(200)
    });
    answer.mount(&server).await;

    let clock = Arc::new(SystemClock::new());
    let config = SimulatorConfig {
        webhook_url: Some(server.uri().parse().unwrap()),
        complete_after: Duration::from_millis(50),
        ..SimulatorConfig::default()
    };
    let sim = Simulator::new(config, clock.clone(), Arc::new(RandomIds::from_system()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let stop = Shutdown::new(clock);
    stop.spawn("simulator", Arc::clone(&sim).serve(listener, stop.clone()));

    sim.start(NewJob::new(Kind::Batch)).unwrap();
    let later = NewJob {
        complete_after_ms: Some(3_600_000),
        ..NewJob::new(Kind::Video)
    };
    let later = sim.start(later).unwrap();
    let wait = Duration::from_secs(10);
    let first = tokio::time::timeout(wait, told.recv()).await.unwrap();
    assert!(String::from_utf8_lossy(&first.unwrap()).contains("batch.succeeded"));
    // The loop sleeps for an hour: moving the model's time wakes it.
    sim.advance(Duration::from_secs(3600));
    let second = tokio::time::timeout(wait, told.recv()).await.unwrap();
    assert!(String::from_utf8_lossy(&second.unwrap()).contains(&later));

    sim.fault(Fault::once(FaultKind::Hang));
    let hanging = client()
        .get(format!("{base}/v1/models"))
        .header("x-goog-api-key", "k");
    let hanging = async {
        hanging.send().await.unwrap();
    };
    let drain = async {
        // The request has to be in the log before the stop can interrupt it.
        while sim.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(stop.drain(Duration::from_secs(10)).await);
    };
    tokio::join!(hanging, drain);
}
