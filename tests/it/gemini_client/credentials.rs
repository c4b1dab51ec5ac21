//! Another key and other headers while the client lives.

use hookledger::domain::operation::OperationName;

use super::*;

#[tokio::test]
async fn what_is_sent_is_what_was_read_last() {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200).set_body_string("{\"name\":\"batches/abc\"}"))
        .mount(&server)
        .await;
    let mut settings = settings(&server.uri());
    settings.extra_headers = BTreeMap::from([("x-gateway".to_owned(), Secret::new("first"))]);
    let client = HttpGemini::new(&settings, Arc::new(SystemClock::new())).unwrap();
    let name: OperationName = BATCH.parse().unwrap();
    drop(client.operation(&name).await);
    settings.api_key = Some(Secret::new("another-key"));
    settings.extra_headers = BTreeMap::from([("x-gateway".to_owned(), Secret::new("second"))]);
    client.renew(&settings).unwrap();
    drop(client.operation(&name).await);
    settings.api_key = Some(Secret::new("bad\nkey"));
    assert!(client.renew(&settings).is_err());
    drop(client.operation(&name).await);
    let sent = server.received_requests().await.unwrap();
    let sent: Vec<_> = sent
        .iter()
        .map(|r| {
            (
                r.headers["x-goog-api-key"].clone(),
                r.headers["x-gateway"].clone(),
            )
        })
        .collect();
    assert_eq!(sent[0].1, "first");
    for (key, gateway) in &sent[1..] {
        assert_eq!(
            (key, gateway),
            (&"another-key".parse().unwrap(), &"second".parse().unwrap())
        );
    }
    assert_ne!(sent[0].0, sent[1].0);
}
